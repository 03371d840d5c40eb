#!/bin/busybox sh
# The guest's first process. Words of the kernel's command line:
#   netloom.hostname=NAME  netloom.address=ADDRESS/BITS[,...]  netloom.gateway=ADDRESS[,...]  netloom.mtu=BYTES
#   netloom.run=PROGRAM    run this and end the machine; otherwise a shell is on the console
#   netloom.end=reboot     end by a reboot, for machines without ACPI (with QEMU's -no-reboot)
# /netloom/network, where another archive has brought one, sets interfaces up instead.
if [ "$1" != again ]; then
	# pivot_root(2) refuses the first root; a mount of it, moved over it, is like any other.
	/bin/busybox mount -n --bind / /mnt
	cd /mnt && /bin/busybox mount -n --move . /
	exec /bin/busybox chroot . /init again
fi
cd /
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/busybox HOME=/root TERM=vt100
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /usr/lib/busybox
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
ln -sf /proc/self/fd /dev/fd
# The lab assigns the addresses without duplicates: they are usable at once.
for at in all default; do echo 0 >/proc/sys/net/ipv6/conf/$at/accept_dad; done
modprobe -a virtio_pci virtio_mmio virtio_blk virtio_net virtio_console tun 2>/dev/null
# busybox takes a module that another process is just loading for loaded: of nodes that start at once, all but the first
# would have no overlay. So what labs need is there before them.
modprobe -a overlay veth bridge 2>/dev/null

# With its path: this shell prefers programs of its own, and its `ip` knows less.
/sbin/ip link set lo up
gateways='' addresses='' program='' end=poweroff mtu=''
for word in $(cat /proc/cmdline); do
	case $word in
	netloom.hostname=*) hostname "${word#*=}" ;;
	netloom.address=*) addresses=${word#*=} ;;
	netloom.gateway=*) gateways=${word#*=} ;;
	netloom.mtu=*) mtu=${word#*=} ;;
	netloom.run=*) program=${word#*=} ;;
	netloom.end=*) end=${word#*=} ;;
	esac
done
if [ -e /netloom/network ]; then
	sh /netloom/network
elif [ -e /sys/class/net/eth0 ]; then
	[ -z "$mtu" ] || /sbin/ip link set eth0 mtu "$mtu"
	/sbin/ip link set eth0 up
	IFS=,
	for address in $addresses; do
		case $address in
		*:*) /sbin/ip address add "$address" dev eth0 nodad ;;
		*) /sbin/ip address add "$address" dev eth0 ;;
		esac
	done
	for gateway in $gateways; do /sbin/ip route add default via "$gateway"; done
	unset IFS
fi
# Who runs the machine enters it by the agent, if there is a port for it.
for port in /sys/class/virtio-ports/*; do
	if [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] && [ -x /usr/sbin/qemu-ga ]; then
		qemu-ga -d -m virtio-serial -p "/dev/${port##*/}" -t /run -f /run/qemu-ga.pid
	fi
done
echo "netloom: up after $(cut -d ' ' -f 1 /proc/uptime) s: Linux $(uname -r)"
if [ -n "$program" ]; then
	"$program"
	echo "netloom: $program: exit code $?"
	case $end in
	reboot) reboot -f ;;
	*) poweroff -f ;;
	esac
fi
# As above, for interactive users.
export ENV=/etc/shrc
while :; do setsid cttyhack sh; done
