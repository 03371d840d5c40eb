#!/bin/sh
# In the guest: each line of /t/list, `EXECUTABLE TEST`, as a process of its own, as root; then the demo's lab.
# What it prints is read by kernel.rs: `@ RESULT EXECUTABLE TEST REASON`.
mount -o remount,size=90% / 2>/dev/null
hostname kernel
# A test holds the files of 255 members.
ulimit -n 65536
mkdir -p /w/tmp /w/run
# Tests put files of theirs over these, in namespaces of their own.
for file in resolv.conf nsswitch.conf; do
	[ -e "/etc/$file" ] || : >"/etc/$file"
done
. /t/environment
export TMPDIR=/w/tmp NETLOOM_RUNTIME_DIR=/w/run NETLOOM_SKIP_LOG=/w/skips RUST_BACKTRACE=0
echo "@@ $(uname -r)"
while read -r executable name; do
	: >/w/skips
	timeout -k 5 120 "/t/$executable" --exact --test-threads=1 "$name" >/w/out 2>&1 </dev/null
	code=$?
	if [ $code -ne 0 ]; then
		echo "@ failed $executable $name exit code $code"
		tail -c 3000 /w/out
	elif [ -s /w/skips ]; then
		echo "@ skipped $executable $name $(cut -f 2 /w/skips | head -n 1)"
	else
		echo "@ passed $executable $name"
	fi
done </t/list
cd "$NETLOOM_TEST_ROOT" || exit 1
if netloom up examples/two-sites.yaml >/w/out 2>&1 && netloom ping --all >>/w/out 2>&1 &&
	netloom exec h1 -- ping -c 1 web >>/w/out 2>&1 && netloom down >>/w/out 2>&1; then
	echo "@ passed netloom demo"
else
	echo "@ failed netloom demo exit code $?"
	tail -c 3000 /w/out
fi
echo "@@ end"
