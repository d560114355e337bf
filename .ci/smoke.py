"""A first use of what is installed: ``python smoke.py`` for the core, ``python smoke.py EXTRA`` for what an extra adds.

`make dist` runs it in environments that hold the built wheel and nothing of the clone, in an empty folder.
"""

import subprocess
import sys

import numpy as np

import lowregret as lr

FROST = lr.cost_loss(cost=1, loss=4)
LOG = "date,p_calm,p_event,actual\n" + "".join(f"2024-01-{day:02d},0.9,0.1,calm\n" for day in range(1, 31))
PAYOFFS = "dollars,calm,event\nwait,0,-4\nprotect,-1,-1\n"


def command(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "lowregret", *words], check=True, stdout=subprocess.DEVNULL)


def written(name: str, text: str) -> str:
    with open(name, "w") as file:
        file.write(text)
    return name


def core() -> None:
    unasked = {"torch", "matplotlib", "numba", "polars", "typer", "sklearn"} & set(sys.modules)
    if unasked:
        raise SystemExit(f"import lowregret loads {', '.join(sorted(unasked))}")
    guard = guarded()
    if not guard.events or guard.certificate.at(50).regret_bound <= 0:
        raise SystemExit("a model that is wrong every day was not left")
    guarded().save("guard")
    lr.Guard(FROST).load("guard")


def guarded() -> lr.Guard:
    guard = lr.Guard(FROST)
    for _ in range(50):
        guard.advise([0.9, 0.1])
        guard.observe("event")
    return guard


def cli() -> None:
    payoffs = written("payoffs.csv", PAYOFFS)
    command("plan", payoffs, "--law", "calm=0.9,event=0.1", "--truth", "0.1,0.9", "--horizon", "20", "--runs", "2")


def torch() -> None:
    import torch

    laws = lr.PolyaUrn(2).predict_sequence(torch.tensor([[0, 1, 1]]))
    if not isinstance(laws, torch.Tensor):
        raise SystemExit("a tensor went in, and no tensor came out")
    lr.FromModule(torch.nn.Embedding(3, 2).eval(), token_ids=[0, 1], bos=2).predict_sequence([[0, 1, 1]])


def fast() -> None:
    lr.backtest(FROST, np.full((128, 1024, 2), 0.5), lr.problems.Positions(np.zeros((128, 1024), int)))
    if "numba" not in sys.modules:
        raise SystemExit("a long recording was not handed to the compiled loop")


def data() -> None:
    lr.audit(written("log.csv", LOG), FROST)


def audit() -> None:
    command("audit", written("log.csv", LOG), "--payoffs", written("payoffs.csv", PAYOFFS), "--out", "audit")


def ray() -> None:
    log = "".join(f"{town},{row}\n" for town in ("a", "b") for row in LOG.splitlines()[1:])
    written("towns.csv", f"town,{LOG.splitlines()[0]}\n{log}")
    lr.audit("towns.csv", FROST, columns={"stream": "town"}, cluster=True)


def hf() -> None:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=12,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        bos_token_id=0,
        eos_token_id=None,
    )
    lr.HFPredictor(transformers.LlamaForCausalLM(config).eval(), [5, 6], prompt=[0]).predict_sequence([[0, 1]])


def sklearn() -> None:
    from sklearn.linear_model import LogisticRegression

    X, came = np.arange(40.0)[:, None], np.array(["calm", "event"] * 20)
    lr.GuardedClassifier(LogisticRegression(), lr.Guard(FROST)).fit(X, came).policy(X[:1])


def river() -> None:
    from river import naive_bayes

    model = lr.adapters.GuardedRiverClassifier(naive_bayes.GaussianNB(), lr.Guard(FROST))
    for came in ("calm", "event", "event"):
        model.policy_one({"wind": 1.0})
        model.learn_one({"wind": 1.0}, came)


def examples() -> None:
    from importlib.metadata import distribution

    import matplotlib.pyplot  # noqa: F401
    import pandas as pd
    import pyspiel

    pyspiel.make_roshambo_bot(0, "rockbot")
    recordings = {
        "arch": "arch/data/sp500/sp500.csv.gz",
        "statsmodels": "statsmodels/tsa/stl/tests/results/mstl_elec_vic.csv",
        "vega_datasets": "vega_datasets/_data/seattle-weather.csv",
    }
    for package, path in recordings.items():
        pd.read_csv(distribution(package).locate_file(path))


if __name__ == "__main__":
    core()
    for extra in sys.argv[1:]:
        globals()[extra]()  # a function for each extra, by its name
