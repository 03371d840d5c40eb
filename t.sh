ip link set lo up; ip link add uplink type dummy; ip addr add 203.0.113.1/24 dev uplink; ip link set uplink up; ip route add default via 203.0.113.9
export NETLOOM_RUNTIME_DIR=/tmp/dd/run
netloom-rel up two.yaml; netloom-rel exec a -- ping -c1 -W2 203.0.113.1; netloom-rel exec b -- ping -c1 -W2 203.0.113.1; ip -br a; netloom-rel down --all
