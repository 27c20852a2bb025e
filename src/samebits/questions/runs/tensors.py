"""Fingerprints of torch tensors, and which tensors were the result of an operation that is already recorded."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

import xxhash

from samebits.questions.runs.trace_file import Input

_MOST_KNOWN = 50_000
_MOST_ROWS = 1024
_MOST_BYTES_OF_ROWS = 64 * 2**20


def is_strided(torch: Any, tensor: Any) -> bool:
    """Whether a tensor is one block of elements with sizes and strides: not sparse, and no list of tensors (nested)."""
    return tensor.layout is torch.strided and not tensor.is_nested


def fingerprint(torch: Any, tensor: Any) -> bytes | None:
    """xxh3-128 of the elements' bytes in their logical sequence; None for tensors without elements of their own."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not is_strided(torch, tensor):
        return None
    if tensor.is_quantized or tensor.device.type == "meta":
        return None
    plain = _make_plain(tensor)
    return xxhash.xxh3_128_digest(_view_bytes(plain))


def fingerprint_rows(torch: Any, tensor: Any) -> list[int]:
    """32 bits of every row's fingerprint: which samples a batch has, in which sequence. Of other tensors none."""
    whole = is_strided(torch, tensor) and tensor.dim() > 0 and 0 < tensor.shape[0] <= _MOST_ROWS
    if not whole or tensor.device.type == "meta" or tensor.nbytes > _MOST_BYTES_OF_ROWS:
        return []
    plain = _make_plain(tensor)
    data = memoryview(_view_bytes(plain)).cast("B")
    size = len(data) // tensor.shape[0]
    return [xxhash.xxh3_64_intdigest(data[i * size : (i + 1) * size]) & 0xFFFFFFFF for i in range(tensor.shape[0])]


def _make_plain(tensor: Any) -> Any:
    """The tensor, or a copy of it, in memory that can be read from end to end."""
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _view_bytes(plain: Any) -> Any:
    """The memory of a plain tensor, which must live as long as this is used."""
    size = plain.nbytes
    return (ctypes.c_char * size).from_address(plain.data_ptr()) if size else b""


class KnownTensors:
    """The outputs of recorded operations, found again by their memory as long as nobody has written into it since."""

    def __init__(self, torch: Any):
        self.torch = torch
        # Storages that are held weakly, by their addresses: none of them is given to another storage meanwhile. No
        # object frees them when it goes: an exception of the script's signal handler would be lost there.
        self.held: set[int] = set()
        self.known: dict[tuple[Any, ...], tuple[int, int]] = {}
        # By storage: what of it is known, and the number of the output that was written into it last.
        self.of_storage: dict[int, set[tuple[Any, ...]]] = {}
        self.writers: dict[int, int] = {}
        self.next = 0

    def remember(self, tensor: Any, *, is_written: bool = False) -> None:
        """Gives the tensor, as it is now, the next number. One that was written is counted so after its operation."""
        number, self.next = self.next, self.next + 1
        if type(tensor) not in (self.torch.Tensor, self.torch.nn.Parameter) or not is_strided(self.torch, tensor):
            return
        storage = tensor.untyped_storage()
        if len(self.known) > _MOST_KNOWN:
            self._forget_freed()
        key = self._key(tensor, storage)
        if key[0] not in self.held:
            storage._weak_ref()
            self.held.add(key[0])
        keys = self.of_storage.setdefault(key[0], set())
        if is_written:
            # Others that see the same memory are no longer what they were, whether they count that or not.
            for other in keys:
                self.known.pop(other, None)
            keys.clear()
            self.writers[key[0]] = number
        keys.add(key)
        self.known[key] = (_version(tensor) + is_written, number)

    def _forget_freed(self) -> None:
        freed = {address for address in self.held if self.torch.UntypedStorage._expired(address)}
        self.known = {k: v for k, v in self.known.items() if k[0] not in freed}
        self.writers = {k: v for k, v in self.writers.items() if k not in freed}
        self.held -= freed
        for address in freed:
            self.torch.UntypedStorage._free_weak_ref(address)
        self.of_storage = {}
        for key in self.known:
            self.of_storage.setdefault(key[0], set()).add(key)

    def find(self, tensor: Any) -> int | None:
        """Its number; None for one that is not known, or was changed outside of recorded operations."""
        if not is_strided(self.torch, tensor):
            return None
        found = self.known.get(self._key(tensor, tensor.untyped_storage()))
        if found is None or found[0] != _version(tensor) or found[0] < 0:
            return None
        return found[1]

    def is_from_outside(self, tensor: Any) -> bool:
        """Whether no recorded operation ever made its memory, and it is data: no weight, no buffer of a module."""
        return tensor.is_leaf and not tensor.requires_grad and (tensor.dim() > 1 or not tensor.is_floating_point())

    def describe(self, tensors: Iterable[Any]) -> list[Input]:
        """Inputs as a record has them."""
        return [number if (number := self.find(t)) is not None else self._describe_unknown(t) for t in tensors]

    def _describe_unknown(self, tensor: Any) -> Input:
        found = fingerprint(self.torch, tensor)
        if found is None or not self.writers:
            return found
        writer = self.writers.get(tensor.untyped_storage()._cdata)
        return found if writer is None else (writer, found)

    def _key(self, tensor: Any, storage: Any) -> tuple[Any, ...]:
        return storage._cdata, tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype


def _version(tensor: Any) -> int:
    """How often the tensor's memory was written; inference mode does not count, so nothing is known of its tensors."""
    return -1 if tensor.is_inference() else tensor._version
