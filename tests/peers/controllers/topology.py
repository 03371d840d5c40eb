"""An application of os-ken that finds links by LLDP and says each on a line: FROM.PORT TO.PORT. Arguments are os-ken's."""

import os
import sys

os.environ["OSKEN_HUB_TYPE"] = "native"  # TLS of eventlet does not get through its handshake

from os_ken.lib import hub  # noqa: E402

hub.patch()

from os_ken import cfg, log  # noqa: E402
from os_ken.base import app_manager  # noqa: E402  before the controller, which needs it
import os_ken.controller.controller  # noqa: E402,F401  registers options
import os_ken.topology.switches  # noqa: E402,F401  registers options
from os_ken.controller.handler import set_ev_cls  # noqa: E402
from os_ken.ofproto import ofproto_v1_3  # noqa: E402
from os_ken.topology import event  # noqa: E402


class Topology(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    @set_ev_cls(event.EventLinkAdd)
    def found(self, told):
        ends = [f"{end.dpid:x}.{end.port_no}" for end in (told.link.src, told.link.dst)]
        print(*ends, flush=True)


def main():
    log.early_init_log()
    cfg.CONF(["--observe-links", *sys.argv[1:]], project="os_ken", version="topology")
    log.init_log()
    manager = app_manager.AppManager.get_instance()
    manager.applications_cls["topology"] = Topology
    manager.load_apps(["os_ken.controller.ofp_handler", "os_ken.topology.switches"])
    threads = manager.instantiate_apps(**manager.create_contexts())
    hub.joinall(threads)


if __name__ == "__main__":
    sys.exit(main())
