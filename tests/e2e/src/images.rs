//! Images for tests: made of the machine's busybox, as `docker save` writes them.

use std::path::{Path, PathBuf};

use netloom_kit::{Run, Scratch, processes};

/// Makes an archive from layers in JSON: a list of lists of entries, each `{path, mode, text | link | hard | from, uid}`.
const MAKE: &str = r#"
import hashlib, io, json, subprocess, sys, tarfile
out, layers, config = sys.argv[1], json.load(open(sys.argv[2])), json.loads(sys.argv[3])

def add(tar, entry):
    info = tarfile.TarInfo(entry['path'])
    info.mode = entry.get('mode', 0o755)
    info.uid = info.gid = entry.get('uid', 0)
    data = None
    if 'text' in entry or 'from' in entry:
        data = entry['text'].encode() if 'text' in entry else open(entry['from'], 'rb').read()
        data *= entry.get('times', 1)
        info.size = len(data)
    elif 'link' in entry:
        info.type, info.linkname = tarfile.SYMTYPE, entry['link']
    elif 'hard' in entry:
        info.type, info.linkname = tarfile.LNKTYPE, entry['hard']
    else:
        info.type = tarfile.DIRTYPE
    tar.addfile(info, io.BytesIO(data) if data is not None else None)

def packed(entries):
    bytes = io.BytesIO()
    with tarfile.open(fileobj=bytes, mode='w') as tar:
        for entry in entries:
            add(tar, entry)
    return bytes.getvalue()

box = subprocess.run(['sh', '-c', 'command -v busybox'], capture_output=True, text=True).stdout.strip()
libraries = [word for line in subprocess.run(['ldd', box], capture_output=True, text=True).stdout.splitlines()
             for word in line.split() if word.startswith('/')]
base = [{'path': p} for p in ['bin', 'etc', 'srv', 'lib', 'lib64']] + [{'path': 'tmp', 'mode': 0o1777}]
base += [{'path': 'bin/busybox', 'from': box}]
base += [{'path': 'bin/' + name, 'link': 'busybox'} for name in
         ['sh', 'ls', 'cat', 'sleep', 'id', 'httpd', 'wget', 'stat', 'env', 'pwd', 'touch', 'true', 'false', 'mkdir', 'rm']]
base += [{'path': library[1:], 'from': library} for library in libraries]
base += [{'path': 'etc/passwd', 'mode': 0o644, 'text': 'root:x:0:0::/root:/bin/sh\nweb:x:33:33::/srv:/bin/sh\n'},
         {'path': 'etc/group', 'mode': 0o644, 'text': 'root:x:0:\nweb:x:33:\n'}]
tars = [packed(entries) for entries in [base] + layers]
ids = ['sha256:' + hashlib.sha256(tar).hexdigest() for tar in tars]
machine = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(subprocess.run(['uname', '-m'], capture_output=True, text=True).stdout.strip(), 'amd64')
text = json.dumps({'os': 'linux', 'architecture': machine, 'config': config,
                   'rootfs': {'type': 'layers', 'diff_ids': ids}}).encode()
names = ['%d/layer.tar' % n for n in range(len(tars))]
manifest = json.dumps([{'Config': 'config.json', 'RepoTags': ['test/box:1'], 'Layers': names}]).encode()
with tarfile.open(out, 'w') as tar:
    for name, data in [('config.json', text), ('manifest.json', manifest)] + list(zip(names, tars)):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))
"#;

/// Makes an archive `name` of an image: busybox, and these layers above it. Needs python3 and busybox.
pub fn archive(
    scratch: &Scratch,
    name: &str,
    layers: &serde_json::Value,
    config: &serde_json::Value,
) -> PathBuf {
    let path = scratch.path().join(name);
    let script = scratch.file("make-image.py", MAKE);
    let layers = scratch.file("layers.json", layers.to_string());
    let config = config.to_string();
    let run = Run::new("python3");
    let run = run.args([script.as_os_str(), path.as_os_str(), layers.as_os_str()]);
    run.args([config]).finish().code(0);
    path
}

/// The folder of unpacked layers in a test's store, and how many there are.
pub fn unpacked(data: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for folder in ["layers.many", "layers.one"] {
        let entries = std::fs::read_dir(data.join("images").join(folder));
        all.extend(entries.into_iter().flatten().flatten().map(|entry| entry.path()));
    }
    all.sort();
    all
}

/// The process that unpacks for this one, where there is one now.
pub fn unpacker(pid: i32) -> Option<i32> {
    let own = |process: &netloom_kit::Process| {
        process.parent == pid && process.comm == "netloom-unpack" && !process.zombie
    };
    processes().into_values().find(own).map(|process| process.pid)
}

/// Kills the process that unpacks for this one, or this one, which is a child that nobody has waited for, where none unpacks.
///
/// # Panics
/// When the one that is there cannot be killed.
pub fn kill_unpacker(pid: i32) {
    let Some(unpacker) = unpacker(pid) else { return crate::kill(pid) };
    let unpacker = rustix::process::Pid::from_raw(unpacker).expect("a pid is not 0");
    match rustix::process::kill_process(unpacker, rustix::process::Signal::KILL) {
        // It has ended by itself meanwhile.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => panic!("kill the process that unpacks: {error}"),
    }
}
