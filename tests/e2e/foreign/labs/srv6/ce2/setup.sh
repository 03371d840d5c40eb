ip address add 192.168.102.2/24 dev eth1
ip route replace default via 192.168.102.1 dev eth1
