"""Settings that were not the same in two runs, what to set, and which of them may have made the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from samebits.questions.runs.diff_schema import FirstDifference, SettingDifference

# What makes a setting the same in both runs; {a} is what the first run had.
_HOW = {
    "torch seed": "torch.manual_seed(N), before the model is built",
    "torch threads": "torch.set_num_threads({a})",
    "torch use_deterministic_algorithms": "torch.use_deterministic_algorithms(True)",
    "torch float32_matmul_precision": 'torch.set_float32_matmul_precision("{a}")',
    "torch default_dtype": "torch.set_default_dtype({a})",
    "torch backends.mkldnn.enabled": "torch.backends.mkldnn.enabled = {a}",
    "torch backends.mkldnn.deterministic": "torch.backends.mkldnn.deterministic = True",
    "torch backends.mkldnn.conv.fp32_precision": 'torch.backends.mkldnn.conv.fp32_precision = "{a}"',
    "torch backends.mkldnn.matmul.fp32_precision": 'torch.backends.mkldnn.matmul.fp32_precision = "{a}"',
    "torch backends.cudnn.benchmark": "torch.backends.cudnn.benchmark = False",
    "torch backends.cudnn.deterministic": "torch.backends.cudnn.deterministic = True",
    "torch backends.cudnn.allow_tf32": "torch.backends.cudnn.allow_tf32 = {a}",
    "torch backends.cuda.matmul.allow_tf32": "torch.backends.cuda.matmul.allow_tf32 = {a}",
    "torch cpu capability": "ATEN_CPU_CAPABILITY: the same in both",
    "tensorflow seed": "tf.random.set_seed(N) (keras.utils.set_random_seed(N) seeds Python and NumPy, too)",
    "tensorflow op determinism": "tf.config.experimental.enable_op_determinism()",
    "tensorflow intra-op threads": "tf.config.threading.set_intra_op_parallelism_threads({a})",
    "tensorflow inter-op threads": "tf.config.threading.set_inter_op_parallelism_threads({a})",
    "tensorflow float32 may be TF32": "tf.config.experimental.enable_tensor_float_32_execution({a})",
    "jax enable_x64": 'jax.config.update("jax_enable_x64", {a})',
    "jax default_matmul_precision": 'jax.config.update("jax_default_matmul_precision", "{a}")',
    "jax default_prng_impl": 'jax.config.update("jax_default_prng_impl", "{a}")',
    "jax threefry_partitionable": 'jax.config.update("jax_threefry_partitionable", {a})',
    "workers": "the same num_workers: each worker draws its own random numbers",
    "hash randomisation": "PYTHONHASHSEED=0",
    "cores": "the same number of threads, by OMP_NUM_THREADS",
}
# Where a difference may come from other random numbers.
_DRAWN = ("random state", "order of the data", "order within a batch", "noted values")
SETS = "order of sets of texts"
_SEEDS = ("torch seed", "tensorflow seed")


def list_differences(
    a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]], first: FirstDifference | None
) -> list[SettingDifference]:
    """The settings that differed at any time of the runs, likely causes of the first difference first."""
    one, other = _join(a), _join(b)
    found = [
        SettingDifference(name, one.get(name, "not there"), other.get(name, "not there"), _say_how(name, one))
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]
    drawn = first is not None and first.reason in _DRAWN
    return sorted(found, key=lambda s: (s.name in _SEEDS) != drawn)


def is_unseeded(a: Mapping[tuple[int, str], bytes], b: Mapping[tuple[int, str], bytes], name: str) -> bool:
    """Whether a random state differs at every step and moves on from step to step in either run.

    Who never draws differs in every process; who is seeded after the first step was seen is the same from then on.
    """
    shared = {step for step, of in a if of == name} & {step for step, of in b if of == name}
    moves = any(len({state for (_, of), state in states.items() if of == name}) > 1 for states in (a, b))
    return moves and bool(shared) and all(a[step, name] != b[step, name] for step in shared)


def list_unseeded(a: Mapping[tuple[int, str], bytes], b: Mapping[tuple[int, str], bytes]) -> list[SettingDifference]:
    """The libraries that drew random numbers and whose random state differed all the time."""
    found: list[SettingDifference] = []
    for name, how in (("numpy", "numpy.random.seed(N)"), ("python", "random.seed(N)")):
        if is_unseeded(a, b, name):
            found.append(SettingDifference(f"{name} random state", "one", "another", how))
    return found


def list_unordered(a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]]) -> list[SettingDifference]:
    """The order of sets of texts, which Python draws for each process."""
    is_drawn = all(s and s[0].get("hash randomisation") == "on" and _is_random(s[0]) for s in (a, b))
    return [SettingDifference(SETS, "drawn", "drawn again", "PYTHONHASHSEED=0")] if is_drawn else []


def _is_random(settings: Mapping[str, str]) -> bool:
    return settings.get("env PYTHONHASHSEED") in ("not set", "random", "")


def _join(settings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Every setting with its values in the sequence they had: a seed is set, threads are changed on the way."""
    joined: dict[str, list[str]] = {}
    for one in settings:
        for name, value in one.items():
            known = joined.setdefault(name, [])
            if not known or known[-1] != value:
                known.append(value)
    return {name: ", then ".join(values) for name, values in joined.items()}


def _say_how(name: str, a: Mapping[str, str]) -> str | None:
    if name.startswith("env "):
        value = a.get(name, "not set")
        return f"unset {name[4:]}" if value == "not set" else f"{name[4:]}={value}"
    if name.endswith(" version") or name == "python":
        return f"the same version of {name.removesuffix(' version')}"
    if name == "processor":
        return None
    how = _HOW.get(name)
    value = a.get(name, "")
    return how.format(a={"on": "True", "off": "False"}.get(value, value)) if how else None
