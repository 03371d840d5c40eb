#!/usr/bin/env python
from mininet.topo import Topo
from mininet.net import Mininet
from mininet.node import Node, CPULimitedHost
from mininet.link import TCLink
from mininet.log import setLogLevel, info
from mininet.cli import CLI
class LinuxRouter(Node):
    def config(self, **params):
        super(LinuxRouter, self).config(**params)
        self.cmd('sysctl net.ipv4.ip_forward=1')
    def terminate(self):
        self.cmd('sysctl net.ipv4.ip_forward=0')
        super(LinuxRouter, self).terminate()
class NetworkTopo(Topo):
    def build(self, **_opts):
        r = self.addNode('r0', cls=LinuxRouter, ip='192.168.1.1/24')
        s1, s2 = [self.addSwitch(s) for s in ('s1', 's2')]
        self.addLink(s1, r, intfName2='r0-eth1', params2={'ip': '192.168.1.1/24'})
        self.addLink(s2, r, intfName2='r0-eth2', params2={'ip': '172.16.0.1/12'})
        h1 = self.addHost('h1', ip='192.168.1.100/24', defaultRoute='via 192.168.1.1')
        h2 = self.addHost('h2', ip='172.16.0.100/12', defaultRoute='via 172.16.0.1')
        for h, s in [(h1, s1), (h2, s2)]:
            self.addLink(h, s, bw=10, delay='5ms', loss=1)
def run():
    net = Mininet(topo=NetworkTopo(), link=TCLink)
    net.start()
    info(net['r0'].cmd('route'))
    net.pingAll()
    CLI(net)
    net.stop()
if __name__ == '__main__':
    setLogLevel('info')
    run()
