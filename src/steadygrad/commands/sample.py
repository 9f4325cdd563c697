"""`steadygrad sample`: samples from a trained model: text, or a MIDI file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from .. import experiments, storage
from ..experiments.problem import title

CHARACTERS, STEPS = 1000, 256  # how long a sample is where nothing is said


def add_sample(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("directory", type=Path, metavar="DIR", help="folder of a run on text or music")
    add("--length", type=int, metavar="N", help=f"characters ({CHARACTERS:,}), or steps ({STEPS})")
    add("--seed", type=int, default=0, metavar="N", help="of what is drawn (0)")
    add("--temperature", type=float, default=1.0, metavar="X", help="0 or more (1); 0 takes the most likely")
    add("--prompt", metavar="TEXT", help="what to go on from: a text, or for music a MIDI file")
    add("--out", type=Path, metavar="FILE", help="where it goes (standard output; for music DIR/sample.mid)")


def run_sample(args: argparse.Namespace) -> int:
    """Write text from a model of text to standard output, or a MIDI file from a model of music.

    examples:
      steadygrad sample runs/ptb --length 500 --seed 3
      steadygrad sample runs/ptb --prompt "the company said " --temperature 0.7
      steadygrad sample runs/nottingham --out tune.mid --length 300
      steadygrad sample runs/nottingham --prompt opening.mid --out tune.mid

    A temperature below 1 makes likely characters and notes likelier still; at 0 the most likely is always taken. The same
    seed gives the same sample. A prompt comes first in what is written, and does not count towards --length.
    """
    from ..data.music import KEYS

    config = experiments.read_config(args.directory)
    trained = None if config.form == "drawn" else experiments.load(args.directory)
    if trained is not None and trained.symbols is not None:
        return _text(args, trained)
    if trained is None or trained.model.problem.output_size != KEYS:
        of = title(config.problem)
        raise ValueError(f"{args.directory} must be the folder of a run on text or music, and holds one on {of}")
    return _music(args, trained)


def _text(args: argparse.Namespace, trained: Any) -> int:
    from ..data.sampling import sample_text

    if args.out is not None and args.out.suffix.lower() in (".mid", ".midi"):
        raise ValueError(f"--out must be a text file, not {args.out}: {args.directory} holds a model of text")
    length = CHARACTERS if args.length is None else args.length
    prompt = args.prompt or ""
    written = prompt + sample_text(trained, length, temperature=args.temperature, seed=args.seed, prompt=prompt)
    if args.out is None:
        sys.stdout.write(written if written.endswith("\n") else written + "\n")
    else:
        storage.write(args.out, written.encode())
        print(args.out)
    return 0


def _music(args: argparse.Namespace, trained: Any) -> int:
    import torch

    from .. import data
    from ..data.sampling import sample_music

    out = args.out or args.directory / "sample.mid"
    if out.suffix.lower() not in (".mid", ".midi"):
        raise ValueError(f"--out must end in .mid, not be {out}: {args.directory} holds a model of music")
    length = STEPS if args.length is None else args.length
    # Without a step of its own, a set's step is taken to be an eighth note, which lasts ¼ s at 120 quarters a minute.
    seconds = trained.config.time_step
    prompt = None
    if args.prompt is not None:
        prompt = data.read_midi(args.prompt, "quarter/2" if seconds is None else seconds).roll
    roll = sample_music(trained, length, temperature=args.temperature, seed=args.seed, prompt=prompt)
    whole = roll if prompt is None else torch.cat([prompt, roll])
    data.write_midi(whole, out, step_seconds=0.25 if seconds is None else seconds)
    print(out)
    return 0
