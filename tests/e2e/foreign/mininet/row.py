"""Runs whole: a row of switches, a program, a link that goes down."""
import sys

from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.topo import Topo


class Row(Topo):
    def build(self, n=2):
        last = None
        for i in range(1, n + 1):
            host, switch = self.addHost('h%d' % i), self.addSwitch('s%d' % i)
            self.addLink(host, switch, delay='2ms')
            if last:
                self.addLink(last, switch)
            last = switch


def test():
    net = Mininet(topo=Row(n=3), link=TCLink, autoSetMacs=True)
    net.start()
    h1, h3 = net.get('h1', 'h3')
    lost = net.pingAll()
    print('address', h1.IP(), h1.MAC(), h1.intf())
    h1.cmd('cd /tmp; greeting=hello')
    print('shell', h1.cmd('echo $greeting from $(pwd)').strip())
    process = h3.popen('cat /sys/class/net/h3-eth0/address')
    print('popen', process.communicate()[0].decode().strip())
    net.configLinkStatus('s3', 'h3', 'down')
    print('down', 'received' in h1.cmd('ping -c1 -W1', h3.IP()) and net.ping([h1, h3], timeout=1))
    net.stop()
    return lost


if __name__ == '__main__':
    setLogLevel('warning')
    sys.exit(int(test()))
