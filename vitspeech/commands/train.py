"""usage: {program} --config CONFIG [--config OVERLAY ...] [--KEY VALUE ...]
       {program} --resume RUN

Train a network from a config. The run's folder holds everything: the resolved config, logs, checkpoints, learning
curves, the confusion matrix or a list of errors, and the final model in the released form.

  --trainer.max_epochs N            how many epochs
  --data.batch N                    items of a batch
  --model.optimizer.lr RATE         learning rate
  --model.network.encoder.depth N   blocks of attention

  --config CONFIG       a YAML file, or the name of a config of the package (`vitspeech configs` lists them); if several
                        are given, later ones override earlier ones
  --KEY VALUE           override any other key of the config: --model.network.encoder.heads 8
  --data.root FOLDER    folder of the data set; default: VITSPEECH_DATA, else data
  --seed_everything N   seed of everything random (default 0)
  --init_from FOLDER    start from the weights of a released model or a finished run, as far as names and shapes agree;
                        also a key of a config
  --init_from_least S   the least share of parameters that must be loaded (default: 0.1)
  --run FOLDER          folder of the run; default: runs/NAME-OF-CONFIG/NUMBER
  --resume RUN          resume an interrupted run, with the same result as an uninterrupted one
  --every_minutes N     save a checkpoint within an epoch after so many minutes (default 10); 0 saves after epochs only
  --every_steps N       save a checkpoint within an epoch after so many optimizer steps
  --data.storage S      where the items are: memory (the default), files or stream
  --trust MODULE        accept classes of this module of your own, whose code then runs; may be repeated
  --print_config        print the resolved config and exit
  --help-all            every key, including the trainer's hundreds of lines

A config has three parts, and each key is an argument of a constructor:
  data      vitspeech.Cifar, ImageFolder, Shapes, TwoMarks,   --data.help vitspeech.Cifar
            SpeechCommands, AudioFolder, SpokenWords, Keywords; several words: WordSequences,
            LibriSpeech, TranscribedAudio, SpokenVocabulary; sequences of symbols: SymbolTasks
  model     vitspeech.Classification, Spotting, Labeling, Recognition (CTC), Transcription (encoder-decoder),
            JointRecognition (CTC trained with a decoder) or
            MaskedPrediction (pre-training without transcripts) with
            network: vitspeech.ViT, CNN, TimmModel,           --model.network.help vitspeech.ViT
                     SpeechClassifier, SpeechCNN, SpeechLabeler, SpeechRecognizer, SpeechTranscriber,
                     MaskedSpeechModel, Seq2Seq
            encoder: {{depth: 6, ...}}, or RecurrentEncoder,    --model.network.encoder.help vitspeech.RecurrentEncoder
                     WindowMLP; decoder: RecurrentDecoder
            optimizer of torch.optim or timm.optim, warmup, decay, compile, and the task's label_smoothing, ctc_weight
  trainer   Lightning's: max_epochs, precision (auto: bf16 where it is fast, else fp32), accelerator,
            gradient_clip_val, callbacks, ...

examples:
  {program} --config shapes/vit
  {program} --config cifar10/vit --config trainer/gpu --model.network.encoder.depth 12
  {program} --config speech_commands/truncated --data.root ROOT
  {program} --config word_sequences/ctc --data.source.root ROOT
  {program} --config mine.yaml --init_from checkpoints/speech-commands-truncated
  {program} --resume runs/cifar10-vit/0
  torchrun --nproc-per-node 8 --no-python -- vitspeech train --config cifar10/vit --config trainer/ddp
"""

import sys
from collections.abc import Sequence

from vitspeech import command_line


def main(arguments: Sequence[str]) -> None:
    """Run `vitspeech train`; every argument but `--help` is parsed by the training command line (jsonargparse)."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__.format(program=command_line.program("train")).strip())
        sys.exit(0 if arguments else 2)

    from vitspeech.training.train import train

    train(["--help" if argument == "--help-all" else argument for argument in arguments])
