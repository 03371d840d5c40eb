"""A learning switch as an application of os-ken: table 0 sends what it does not know here, in OpenFlow 1.3."""

import os
import sys

os.environ["OSKEN_HUB_TYPE"] = "eventlet"

from os_ken.lib import hub  # noqa: E402

hub.patch()

from os_ken import cfg, log  # noqa: E402
from os_ken.base import app_manager  # noqa: E402  before the controller, which needs it
import os_ken.controller.controller  # noqa: E402,F401  registers options
from os_ken.controller import ofp_event  # noqa: E402
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls  # noqa: E402
from os_ken.lib.packet import ethernet, packet  # noqa: E402
from os_ken.ofproto import ofproto_v1_3  # noqa: E402


class Learning(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ports = {}

    def add(self, switch, priority, match, port):
        parser, proto = switch.ofproto_parser, switch.ofproto
        actions = [parser.OFPActionOutput(port, proto.OFPCML_NO_BUFFER)]
        applied = [parser.OFPInstructionActions(proto.OFPIT_APPLY_ACTIONS, actions)]
        switch.send_msg(parser.OFPFlowMod(datapath=switch, priority=priority, match=match, instructions=applied))

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        switch = event.msg.datapath
        self.add(switch, 0, switch.ofproto_parser.OFPMatch(), switch.ofproto.OFPP_CONTROLLER)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message = event.msg
        switch, came_by = message.datapath, message.match["in_port"]
        parser, proto = switch.ofproto_parser, switch.ofproto
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        self.ports[switch.id, frame.src] = came_by
        port = self.ports.get((switch.id, frame.dst), proto.OFPP_FLOOD)
        if port != proto.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=came_by, eth_dst=frame.dst, eth_src=frame.src)
            self.add(switch, 1, match, port)
        switch.send_msg(
            parser.OFPPacketOut(
                datapath=switch,
                buffer_id=message.buffer_id,
                in_port=came_by,
                actions=[parser.OFPActionOutput(port)],
                data=message.data if message.buffer_id == proto.OFP_NO_BUFFER else None,
            )
        )


def main():
    log.early_init_log()
    cfg.CONF(["--ofp-listen-host", "127.0.0.1"], project="os_ken", version="learning")
    log.init_log()
    manager = app_manager.AppManager.get_instance()
    manager.applications_cls["learning"] = Learning
    manager.load_apps(["os_ken.controller.ofp_handler"])
    threads = manager.instantiate_apps(**manager.create_contexts())
    hub.joinall(threads)


if __name__ == "__main__":
    sys.exit(main())
