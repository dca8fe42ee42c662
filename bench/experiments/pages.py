"""The pages of the experiments: OUT/EXPERIMENT.md with the plots that it shows, and the data beside it in compact form."""

import importlib
import os
import tempfile
import tomllib

from experiments import models
from experiments.measurements import Measured, path_of
from experiments.page import Page
from experiments.predictions import Machine
from experiments.virtual import Device, Runs

HERE = os.path.dirname(os.path.abspath(__file__))
TITLES = {"cocopelia": "CoCoPeLia, measured again", "werkhoven": "Performance models for CPU-GPU data transfers, measured again",
          "semcache": "SemCache++, in virtual time", "blasx": "BLASX, in virtual time", "xkblas": "XKBlas, in virtual time",
          "beyond": "Beyond the papers' machines, in virtual time"}
QUICK = " (quick: the numbers have no meaning)"


def paper_of(name):
    """What the paper says; none where there is no file of it."""
    if not os.path.exists(os.path.join(HERE, name + ".toml")):
        return None
    with open(os.path.join(HERE, name + ".toml"), "rb") as f:
        return tomllib.load(f)


def cited(paper, name):
    return (f"{paper['authors']}: *{paper['title']}*, {paper['where']}. The paper's numbers are in `bench/experiments/{name}.toml`, "
            "with their tables, figures and sections.")


def head(page, name, measured, paper, machine):
    m = measured.machine
    page.heading(TITLES[name] + (QUICK if measured.quick else ""), 1)
    page.text(cited(paper, name))
    settings = [f"{k}={v}" for k, v in measured.settings.items() if k != "SEMCACHE_HOST_BLAS"]
    page.items(f"GPU: {m['gpu']}; CPU: {m['cpu']}, {m['cores']} cores",
               f"library: {measured.build.split(',')[0]}, `semcache run --devices {m['devices']}`" + "".join(f", {s}" for s in settings),
               "rates of the predictions: " + ("those that the measurements were made with" if machine == "measured" else f"`{machine}`"),
               f"measured by `DIR/gpu-bench.sh reproduce OUT {name}" + (" --rates OUT/rates.toml`" if m["rates"] else "`"),
               f"written by `bench/reproduce {name} --data OUT`; `bench/reproduce {name}` writes it again from `reproduce-{name}.jsonl`")


def gaps(page, measured, steps):
    """What is not measured."""
    progress = list(measured.progress(steps))
    lacking = [(title, done, all_) for title, done, all_ in progress if done < all_]
    page.heading("What is measured")
    total = sum(all_ for _, _, all_ in progress)
    page.text(f"{total - sum(all_ - done for _, done, all_ in lacking)} of {total} measurements." +
              (" Not all of:" if lacking else " Nothing is missing."))
    if lacking:
        page.table(["step", "measured", "of"], [[title, str(done), str(all_)] for title, done, all_ in lacking])
    if measured.notes:
        page.text("Notes of the run:")
        page.items(*measured.notes)


def measured_page(name, o, draw):
    if not os.path.exists(path_of(o.data, name)):
        raise SystemExit(f"reproduce: {path_of(o.data, name)} does not exist")
    measured, paper = Measured(o.data, name), paper_of(name)
    measured.keep(o.out)
    page = Page(o.out, name, draw)
    with tempfile.TemporaryDirectory() as folder:
        rates, named = o.machine, o.machine and os.path.basename(o.machine)
        if not rates:
            if not measured.machine["rates"]:
                raise SystemExit(f"reproduce: {path_of(o.data, name)} has no rates: --machine FILE names some")
            rates, named = os.path.join(folder, "rates.toml"), "measured"
            with open(rates, "w", encoding="utf-8") as f:
                f.write(measured.machine["rates"])
        machine = Machine(o.semcache, rates)
        if not machine.links:
            raise SystemExit(f"reproduce: {rates} is no file of rates")
        head(page, name, measured, paper, named)
        gaps(page, measured, importlib.import_module(f"experiments.{name}").steps(measured.quick))
        importlib.import_module(f"experiments.{name}_page").write(page, measured, paper, machine)
    page.write()


def model_page(name, o, draw):
    """The models' curves alone, for machines of the paper or for one that is named."""
    paper, page = paper_of(name), Page(o.out, name + "-model", draw)
    page.heading(f"{TITLES[name].split(',')[0]}: what the models say", 1)
    page.text(cited(paper, name))
    with tempfile.TemporaryDirectory() as folder:
        if o.machine:
            machines = {os.path.basename(o.machine): Machine(o.semcache, o.machine)}
            page.text(f"Of {o.machine}, one device; nothing is measured. Written by `bench/reproduce {name} --model --machine "
                      f"{o.machine}`.")
        else:
            machines = {title: Machine(o.semcache, file) for title, file in models.testbeds(name, paper, folder).items()}
            page.text("Of the paper's machines, by what its tables say of links and peaks; what they do not say (how the rate of "
                      "products falls "
                      "with their sizes, memory bandwidth, launches) are the library's figures for any GPU ([docs/rates.md]"
                      f"(../../../docs/rates.md)). Nothing is measured. Written by `bench/reproduce {name} --model`.")
        getattr(models, name)(page, paper, machines)
    page.write()


def simulated_page(name, o, draw):
    """Of runs in virtual time, which are made first."""
    experiment, runs = importlib.import_module(f"experiments.{name}"), Runs(o.semcache, o.data if o.kept else o.out, name, o.quick)
    if not o.kept:
        runs.make(experiment.wanted(o.quick), getattr(experiment, "OF_DEVICES", Device._fields))
    elif not runs.lines:
        raise SystemExit(f"reproduce: {runs.path} has no runs")
    runs.keep(o.out)
    page, paper = Page(o.out, name, draw), paper_of(name)
    page.heading(TITLES[name] + (QUICK if runs.quick else ""), 1)
    if paper:
        page.text(cited(paper, name))
    page.items(f"simulated machines of the library at {runs.head['semcache']}, in [virtual time](../../../docs/virtual-time.md): nothing "
               "is computed, no GPU is involved",
               f"written by `bench/reproduce {name}`, which makes {len(runs.lines)} runs of `bench/virtual.c`; `bench/reproduce {name} "
               f"--kept` writes it again from `reproduce-{name}.jsonl`")
    importlib.import_module(f"experiments.{name}_page").write(page, runs, paper)
    page.write()


def write(o, draw):
    os.makedirs(o.out, exist_ok=True)
    for name in o.experiment:
        simulated = hasattr(importlib.import_module(f"experiments.{name}"), "wanted")
        (model_page if o.model else simulated_page if simulated else measured_page)(name, o, draw)
        print(os.path.join(o.out, name + ("-model" if o.model else "") + ".md"))
