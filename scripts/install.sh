#!/bin/sh
# Installs the release binaries, their man pages and completions, and the plug-in for libvdeplug:
# install.sh BIN-FOLDER SHARE-FOLDER PLUG-IN-FOLDER
set -eu
bin=$1
share=$2
plugins=$3
cd "$(dirname -- "$0")/.."
netloom=$(sh scripts/binary.sh)
bench=$netloom-bench
plugin=$(dirname -- "$netloom")/libvdeplug_netloom.so
# The owner of the checkout brings the binary up to date; anybody else (`sudo make install`) only
# copies what is there, so that cargo never runs as root in somebody's folder.
if [ ! -x "$netloom" ] || [ ! -x "$bench" ] || [ ! -e "$plugin" ] || [ "$(stat -c %u Cargo.toml)" = "$(id -u)" ]; then
    sh scripts/setup.sh tools
    cargo build --release --package netloom --package netloom-bench --package netloom-vdeplug
fi
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
mkdir "$pages/man"
"$netloom" man "$pages/man"
"$bench" man "$pages/man"
install -d "$bin" "$share/man/man1" "$share/man/man5" "$share/bash-completion/completions" \
    "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
install -m 755 "$netloom" "$bin/netloom"
install -m 755 "$bench" "$bin/netloom-bench"
install -d "$plugins"
install -m 644 "$plugin" "$plugins/libvdeplug_netloom.so"
for section in 1 5; do
    for page in "$pages/man"/*."$section"; do
        install -m 644 "$page" "$share/man/man$section/"
    done
done

complete() {
    "$netloom" completions "$1" >"$pages/completion"
    install -m 644 "$pages/completion" "$2"
}
complete bash "$share/bash-completion/completions/netloom"
complete zsh "$share/zsh/site-functions/_netloom"
complete fish "$share/fish/vendor_completions.d/netloom.fish"
echo "installed: $bin/netloom and netloom-bench, man pages and completions below $share, plug-in in $plugins"
