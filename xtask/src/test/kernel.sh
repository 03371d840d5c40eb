#!/bin/sh
# In the guest: each line of /t/list, `EXECUTABLE TEST`, as a process of its own, as root, a few at a time; those of
# /t/alone one by one; then the demo's lab. What it prints is read by kernel/said.rs:
# `@ took EXECUTABLE TEST HUNDREDTHS` and `@ RESULT EXECUTABLE TEST REASON`.
mount -o remount,size=90% / 2>/dev/null
hostname kernel
# A test holds the files of 255 members.
ulimit -n 65536
mkdir -p /w
# Tests that run at once would each ask for what they need: see the guest's init.
modprobe -a nf_tables nft_chain_nat nft_masq nft_ct br_netfilter sch_ingress cls_bpf inet_diag tcp_diag udp_diag 2>/dev/null
# Tests put files of theirs over these, in namespaces of their own.
for file in resolv.conf nsswitch.conf; do
	[ -e "/etc/$file" ] || : >"/etc/$file"
done
. /t/environment
export RUST_BACKTRACE=0
# What tests do for a fixed time they do for longer, to do as much.
export NETLOOM_TEST_SLOWER=6

# Whether a skip for this reason is justified here, where all is run by root (see skips.rs).
justified() {
	case $1 in
	ordinary-only:*) true ;;
	missing:*)
		name=${1#missing:}
		sh "$NETLOOM_TEST_ROOT/tests/needs.sh" "${name%%:*}" >/dev/null 2>&1
		[ $? -eq 1 ]
		;;
	*) false ;;
	esac
}

# A test: what it says is printed at once, whole.
run() {
	: >skips
	read -r begun _ </proc/uptime
	timeout -k 5 300 "/t/$1" --exact --test-threads=1 "$2" >out 2>&1 </dev/null 8<&- 9>&-
	code=$?
	read -r ended _ </proc/uptime
	flock 9
	echo "@ took $1 $2 $((${ended%.*}${ended#*.} - ${begun%.*}${begun#*.}))"
	if [ $code -ne 0 ]; then
		echo "@ failed $1 $2 exit code $code"
		tail -c 3000 out
	elif [ -s skips ]; then
		reason=$(cut -f 2 skips | head -n 1)
		if justified "$reason"; then
			echo "@ skipped $1 $2 $reason"
		else
			echo "@ failed $1 $2 skipped as $reason, which is not so"
		fi
	else
		echo "@ passed $1 $2"
	fi
	flock -u 9
}

# Runs tests of the list on descriptor 8, which all workers share with its place.
work() {
	mkdir -p "/w/$1/tmp" "/w/$1/run"
	cd "/w/$1" || exit 1
	export TMPDIR="/w/$1/tmp" NETLOOM_RUNTIME_DIR="/w/$1/run" NETLOOM_SKIP_LOG="/w/$1/skips"
	exec 9>>/w/turn
	while :; do
		flock 9
		read -r executable name <&8 || executable=''
		flock -u 9
		[ -n "$executable" ] || return
		run "$executable" "$name"
	done
}

echo "@@ $(uname -r)"
: >/w/turn
exec 8</t/list
for worker in $(seq "$JOBS"); do
	work "$worker" &
done
wait
exec 8</t/alone
work 1 &
wait
exec 8<&-

mkdir -p /w/demo
export TMPDIR=/w/demo NETLOOM_RUNTIME_DIR=/w/demo
cd "$NETLOOM_TEST_ROOT" || exit 1
if netloom up examples/two-sites.yaml >/w/out 2>&1 && netloom ping --all >>/w/out 2>&1 &&
	netloom exec h1 -- ping -c 1 web >>/w/out 2>&1 && netloom down >>/w/out 2>&1; then
	echo "@ passed netloom demo"
else
	echo "@ failed netloom demo exit code $?"
	tail -c 3000 /w/out
fi
echo "@@ end"
