#!/bin/sh
# clang unrolls a loop of two passes for BPF, as `#pragma unroll` asks, by what stands behind the loop and by its version.
#
# Guess:   a loop with a constant number of passes is unrolled by any clang, for BPF as for x86-64; programs that verifiers
#          of old kernels are to take rely on it, and with -Werror it is an error where it is not.
# Package: clang-14 1:14.0.6-12, clang-19 1:19.1.7-3~deb12u1 (Debian 12).
# Happens: a loop over two places of a table that ends where the table does is unrolled for x86-64 by clang 19 and for BPF
#          by neither. With a call behind the loop clang 14 unrolls it for BPF, and clang 19 does not ("loop not unrolled").
#          Without the check of the table's end both do.
set -eu

skip() { echo "not runnable here: $1"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' HUP INT TERM

mkdir -p "$tmp/debs/partial"
apt-get -qq -y install --download-only --reinstall --no-install-recommends -o Debug::NoLocking=1 \
    -o APT::Sandbox::User= -o Dir::Cache::archives="$tmp/debs" \
    clang-14=1:14.0.6-12 'clang-19=1:19.1.7-3~deb12u1' >"$tmp/apt" 2>&1 || skip "$(tail -n 1 "$tmp/apt")"
for deb in "$tmp"/debs/*.deb; do dpkg-deb -x "$deb" "$tmp/root"; done
export LD_LIBRARY_PATH="$tmp/root/usr/lib/x86_64-linux-gnu"

# $1: what ends the loop early, $2: what stands behind it.
program() {
    cat <<END
unsigned step(void *work, unsigned place);
unsigned find(void *work, volatile unsigned *order, unsigned places)
{
#pragma unroll
	for (unsigned i = 0; i < 2; i++) {
		unsigned found;

		$1
		found = step(work, order[i]);
		if (found)
			return found;
	}
	return $2;
}
END
}
end='if (i >= places) return 0;'
program "$end" 0 >"$tmp/end.c"
program "$end" 'places > 2 ? step(work, 7) : 0' >"$tmp/end-and-call.c"
program '' 0 >"$tmp/plain.c"

seen=$(for target in x86_64 bpf; do
    for source in plain end end-and-call; do
        line="$target $source:"
        for version in 14 19; do
            "$tmp/root/usr/lib/llvm-$version/bin/clang" --target=$target -O2 -c "$tmp/$source.c" -o "$tmp/object.o" \
                2>"$tmp/said"
            if grep -q 'loop not unrolled' "$tmp/said"; then word=not; else word=unrolled; fi
            line="$line $version $word"
        done
        echo "$line"
    done
done)
"$tmp/root/usr/lib/llvm-14/bin/clang" --version | head -n 1
"$tmp/root/usr/lib/llvm-19/bin/clang" --version | head -n 1
echo "$seen"
expected="x86_64 plain: 14 unrolled 19 unrolled
x86_64 end: 14 not 19 unrolled
x86_64 end-and-call: 14 unrolled 19 unrolled
bpf plain: 14 unrolled 19 unrolled
bpf end: 14 not 19 not
bpf end-and-call: 14 unrolled 19 not"
[ "$seen" = "$expected" ] || { echo "changed: expected"; echo "$expected"; exit 1; }
