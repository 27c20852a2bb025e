"""What `samebits` alone says: what people have, and the command that answers for it."""

from __future__ import annotations

import sys

# By what a person has: what to type, a line each.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "one layer on two engines": ('samebits compare "conv2d x=1x3x32x32 w=8x3x3x3" --on torch --on onnxruntime',),
    "a model file that engines disagree about": ("samebits compare net.onnx --on onnxruntime --on openvino",),
    "a torch module or a Keras model": ("samebits compare net.py:make --on torch --on onnxruntime",),
    "two outputs in files": ("samebits explain a.npy b.npy",),
    "two outputs and their operands": (
        'samebits explain --problem "linear x=64x24 w=48x24" x=x.npy w=w.npy a=a.npy b=b.npy',
    ),
    "the log of a failed check": ("samebits explain test.log",),
    "a script whose runs differ": (
        "samebits trace -o a.trace -- python train.py",
        "samebits trace -o b.trace -- python train.py",
        "samebits diff a.trace b.trace",
    ),
    "results that change with batch or length": ('samebits sweep "linear x={1..64}x768 w=768x768" --on onnxruntime',),
    "a kernel of your own": ('samebits compare "linear x=64x24 w=48x24" --on ./mine.py:kernel --on numpy',),
}


def ask_first_question() -> str:
    """What to type, for whoever typed nothing; empty where help is wanted.

    At a terminal a person is asked, elsewhere everything is listed.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        listed = [line for have, lines in _COMMANDS.items() for line in (have, *(f"    {own}" for own in lines))]
        return "\n".join(["What do you have?", "", *listed, "", "samebits --help lists all commands."])
    print("What do you have?\n")
    for number, have in enumerate(_COMMANDS, 1):
        print(f"  {number}  {have}")
    try:
        answer = input("\nNumber (Enter: all commands): ").strip()
    except EOFError:
        return ""
    if answer.isascii() and answer.isdigit() and 0 < int(answer[:3]) <= len(_COMMANDS):
        return "\n" + "\n".join(f"  {line}" for line in list(_COMMANDS.values())[int(answer[:3]) - 1])
    return ""
