"""Attention weights of any network, and measures of attention heads.

- `weights.py`: the attention weights of each layer, also where a fused kernel keeps none.
- `measures.py`: attention distance (Dosovitskiy et al. 2021, Raghu et al. 2021), entropy, diagonality (Zhang et al.
  2021) and likeness to a convolution, for each head.
- `relevance.py`: attention rollout (Abnar and Zuidema 2020) and gradient-weighted relevance (Chefer et al. 2021).
"""
