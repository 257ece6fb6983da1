#!/usr/bin/env python3
"""usage: train.py --config CONFIG [--config OVERLAY …] [--KEY VALUE …]
       train.py --resume RUN

Train a network from a config. The run's folder keeps everything: resolved config, logs, checkpoints, learning curves,
confusion matrix or listing of errors, and the final model in the released form.

  --config FILE         one YAML, one experiment; of several, later ones win
  --KEY VALUE           overrides a key of the config: --trainer.max_epochs 5 --model.network.depth 12
  --data.root FOLDER    where the data set is; default: VITSPEECH_DATA, else data
  --seed_everything N   everything random follows from it (default 0)
  --run FOLDER          where the run goes; default: runs/CONFIG'S NAME/NUMBER
  --resume RUN          go on where a run stopped, however it stopped; it ends as if it had been left alone
  --print_config        show the resolved config and stop
  --help-all            every key there is, the trainer's hundreds of lines included

A config names a task and has three parts, each key an argument of a constructor:
  task      classification (the default), labeling, recognition (CTC), transcription (encoder-decoder)
  data      vitspeech.Cifar, ImageFolder, Shapes,           --data.help vitspeech.Cifar
            SpeechCommands, AudioFolder, SpokenWords; with several words WordSequences, TranscribedAudio
  model     network: vitspeech.ViT, CNN, TimmModel,         --model.network.help vitspeech.ViT
            SpeechClassifier, SpeechCNN; SpeechLabeler, SpeechRecognizer, SpeechTranscriber
            optimizer of torch.optim or timm.optim, warmup, decay, compile, and the task's label_smoothing, ctc_weight
  trainer   Lightning's: max_epochs, precision, accelerator, gradient_clip_val, callbacks, …

examples:
  train.py --config configs/shapes/vit.yaml
  train.py --config configs/cifar10/vit.yaml --config configs/trainer/gpu.yaml --model.network.depth 12
  train.py --config configs/speech_commands/truncated.yaml --data.root ROOT
  train.py --config configs/word_sequences/ctc.yaml --data.source.root ROOT
  train.py --resume runs/cifar10-vit/0
"""

import sys

from vitspeech import command_line


def main() -> None:
    arguments = ["--help" if argument == "--help-all" else argument for argument in sys.argv[1:]]
    if not sys.argv[1:] or {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] else 2)
    from vitspeech.training.cli import train

    train(arguments)


if __name__ == "__main__":
    command_line.run(main)
