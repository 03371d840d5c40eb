"""Runs a script for Mininet on the stand-in beside this file: run.py SCRIPT [ARGUMENT...]

NETLOOM_MININET is `record` or `run`. Recording ends when the script's network is known: at its prompt, at its end, or
when it stops the network. Then the record is in the file NETLOOM_MININET_RECORD. Commands do not run while it records,
and say nothing: a script that waits for what they say, or fails at it, ends once its network has started.
"""

import os
import runpy
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

#: How often a script may sleep. One that sleeps more often waits for something that does not come.
MOST_SLEEPS = 1000


def main():
    script = os.path.abspath(sys.argv[1])
    sys.path[0] = HERE
    sys.path.insert(1, os.path.dirname(script))
    os.environ["NETLOOM_MININET_SCRIPT"] = script
    os.environ["NETLOOM_MININET_SHOWN"] = sys.argv[1]
    sys.argv = sys.argv[1:]
    from mininet import _ending, _record, net as nets

    if _record.RUNS:
        _ending.heed()
    else:
        # Scripts look whether they are root's; nothing here needs it.
        os.geteuid = os.getuid = lambda: 0
        time.sleep = sleeps(_record)
    names = {}
    try:
        names = runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if _record.RUNS:
            stop(nets)
            raise
        if nets.last is None and end.code not in (None, 0):
            raise
    except Exception as error:
        stop(nets)
        if _record.RUNS or not has_started(nets):
            raise
        _record.ended_with(error)
    except BaseException:
        stop(nets)
        raise
    if nets.last is None:
        topology(names, nets)
    if nets.last is None:
        sys.exit("the script makes no network: no Mininet, and no topology in `topos`")
    if _record.RUNS:
        stop(nets)
        return
    if not nets.last.built:
        nets.last.build()
    _record.write(nets.last)


def has_started(nets):
    """Whether a script's network runs: as a whole, or one switch after the other."""
    net = nets.last
    return net is not None and (net._started or any(switch._controllers is not None for switch in net.switches))


def sleeps(record):
    """What sleeping is while a network is recorded: no time passes."""
    count = [0]

    def sleep(_seconds):
        count[0] += 1
        if count[0] > MOST_SLEEPS:
            raise record.Done(0)

    return sleep


def stop(nets):
    if nets.last is not None and nets.last._lives():
        nets.last.stop()


def topology(names, nets):
    """Makes the network of a script that only has topologies, as `mn --custom` does."""
    from mininet import _record
    from mininet.topo import Topo
    from mininet.util import buildTopo

    wish = os.environ.get("NETLOOM_MININET_TOPO")
    topos = names.get("topos") or {}
    if wish and wish.split(",")[0] not in topos:
        sys.exit("the script has no topology %r" % wish)
    # Arguments stand behind the name, as in `mn --topo`.
    makers = [lambda: buildTopo(topos, wish)] if wish else list(topos.values())
    if not makers:
        makers = [value for value in names.values()
                  if isinstance(value, type) and issubclass(value, Topo)
                  and value.__module__ == "__main__"]
    if not makers:
        return
    net = nets.Mininet(topo=makers[0]())
    if _record.RUNS:
        from mininet.cli import CLI

        net.start()
        CLI(net)


if __name__ == "__main__":
    main()
