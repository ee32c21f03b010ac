"""Opens, by its name, a stream that the running daemon's configuration defines.

The configuration says what the batches contain; the arguments only say how this trainer reads them.
All trainers that open the same name get the same batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Optional, Union

from . import checks
from .arguments import DEFINING
from .dataloader import unknown as unknown_arguments
from .loader import Loader
from .sources import STREAM

__all__ = ["Stream"]


class Stream(Loader):
    """Loader("stream:NAME"), with only the arguments that are allowed for it."""

    def __init__(
        self,
        name: str,
        *,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        share: Optional[str] = None,
        dtype: Any = None,
        device: Any = "auto",
        zero_copy: bool = False,
        timeout: Optional[float] = 120,
        mean: Any = None,
        std: Any = None,
        channels_last: bool = True,
        framework: str = "auto",
        mixup: Union[float, Mapping[int, float], None] = None,
        cutmix: Union[float, Mapping[int, float], None] = None,
        mix_prob: Union[float, Mapping[int, float]] = 1.0,
        mix_switch: Union[float, Mapping[int, float]] = 0.5,
        num_classes: Optional[int] = None,
        label_smoothing: Union[float, Mapping[int, float]] = 0.0,
        group: Optional[str] = None,
        wait_for: Optional[int] = None,
        laggard: Optional[str] = None,
        laggard_timeout: Optional[int] = None,
        socket: Any = None,
        reconnect: Optional[float] = 30,
        state: Any = None,
        on_event: Any = None,
        **unknown: NoReturn,  # NoReturn: type checkers reject them
    ) -> None:
        unknown_arguments.refuse("Stream", unknown, self._known(), DEFINING)
        super().__init__(
            STREAM + checks.text("name", name).removeprefix(STREAM),
            rank=rank,
            world_size=world_size,
            share=share,
            dtype=dtype,
            device=device,
            zero_copy=zero_copy,
            timeout=timeout,
            mean=mean,
            std=std,
            channels_last=channels_last,
            framework=framework,
            mixup=mixup,
            cutmix=cutmix,
            mix_prob=mix_prob,
            mix_switch=mix_switch,
            num_classes=num_classes,
            label_smoothing=label_smoothing,
            group=group,
            wait_for=wait_for,
            laggard=laggard,
            laggard_timeout=laggard_timeout,
            socket=socket,
            reconnect=reconnect,
            state=state,
            on_event=on_event,
        )
