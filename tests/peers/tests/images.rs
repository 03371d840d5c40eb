//! Images that others' programs made and keep: umoci and skopeo put them into Debian's registry, into layouts and archives;
//! in plain text, by TLS, behind a login; and into Docker.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use netloom_kit::{Finished, Scratch, is_root, needs, root_only, wait_until};
use netloom_tests_peers::{Running, SOON};

/// Makes a root of busybox and what it needs, an image of it with two more layers, and an archive of that.
const MAKE: &str = r#"
set -e
mkdir -p root/bin root/srv root/tmp up
box=$(command -v busybox)
cp "$box" root/bin/busybox
for name in sh ls cat stat sleep true; do ln -s busybox "root/bin/$name"; done
for library in $(ldd "$box" | grep -o '/[^ ]*' || true); do
    mkdir -p "root$(dirname "$library")"
    cp -L "$library" "root$library"
done
chmod 1777 root/tmp
echo old >root/srv/old
echo new >up/new
how=$1
umoci init --layout img
umoci new --image img:1
umoci insert $how --image img:1 root /
umoci insert $how --image img:1 up/new /srv/new
umoci insert $how --image img:1 --whiteout /srv/old
umoci config --image img:1 --config.env COLOUR=blue --config.workingdir /srv --config.cmd sleep --config.cmd 1000
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >policy.json
skopeo copy --policy policy.json oci:img:1 docker-archive:saved.tar:a/b:1
"#;

fn make(scratch: &Scratch) {
    let how = if is_root() { "" } else { "--rootless" };
    shell(scratch, MAKE, &[how]);
}

fn shell(scratch: &Scratch, text: &str, words: &[&str]) -> String {
    let done = Command::new("sh")
        .args(["-c", text, "sh"])
        .args(words)
        .current_dir(scratch.path())
        .env("HOME", scratch.path())
        .stdin(Stdio::null())
        .output()
        .expect("run sh");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{text}\n{said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The registry, with more in its configuration's `http` and at its end; its address, once it listens.
fn registry(scratch: &Scratch, http: &str, more: &str) -> (Running, String) {
    let root = scratch.path().join("registry");
    let text = format!(
        "version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
         http: {{addr: \"127.0.0.1:0\"{http}}}\n{more}",
        root.display()
    );
    let config = scratch.file("registry.yml", text);
    let log = scratch.path().join("registry.log");
    let file = fs::File::create(&log).expect("make the log");
    let child = Command::new("docker-registry")
        .arg("serve")
        .arg(&config)
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("the log"))
        .stderr(file)
        .spawn()
        .expect("start the registry");
    let running = Running(child);
    let address = wait_until("the registry listens", SOON, || {
        let said = fs::read_to_string(&log).ok()?;
        let rest = said.split("listening on ").nth(1)?;
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ':'))?;
        Some(rest[..end].to_owned())
    });
    (running, address)
}

fn netloom(scratch: &Scratch, words: &[&str], env: &[(&str, &Path)]) -> Finished {
    let run = scratch.netloom(words).env("HOME", scratch.path());
    env.iter().fold(run, |run, (key, value)| run.env(key, value)).finish()
}

/// A lab of this image has what the image's layers say.
fn comes_up(scratch: &Scratch, image: &str) {
    let text = format!("name: peer\nnodes: {{a: {{image: \"{image}\", pull: never}}}}\n");
    let file = scratch.file("lab.yaml", text);
    let _guard = scratch.guard();
    scratch.netloom(["up".as_ref(), file.as_os_str()]).finish().code(0);
    let exec = |words: &[&str]| scratch.netloom(["exec", "a", "--"].iter().chain(words)).finish();
    assert_eq!(exec(&["ls", "/srv"]).code(0).text(), "new\n");
    assert_eq!(exec(&["stat", "-c", "%a", "/tmp"]).code(0).text(), "1777\n");
    assert_eq!(exec(&["sh", "-c", "echo $COLOUR"]).code(0).text(), "blue\n");
    scratch.netloom(["down"]).finish().code(0);
}

#[test]
fn images_come_from_registry_layout_and_archive() {
    needs!("docker-registry", "skopeo", "umoci", "busybox");
    let scratch = Scratch::new();
    make(&scratch);
    let (_registry, address) = registry(&scratch, "", "");
    let copy = "skopeo copy --policy policy.json --dest-tls-verify=false $2 oci:img:1 docker://$1";
    let image = format!("{address}/a/b:1");
    shell(&scratch, copy, &[&image, ""]);
    let pulled = netloom(&scratch, &["image", "pull", &image, "--json"], &[]).code(0).json();
    assert_eq!(pulled[0]["layers"].as_array().map(Vec::len), Some(3));
    comes_up(&scratch, &image);
    // The same bytes are there once, whatever they are called.
    netloom(&scratch, &["image", "load", "img", "--name", "layout:1"], &[]).code(0);
    netloom(&scratch, &["image", "load", "saved.tar", "--name", "saved:1"], &[]).code(0);
    let folders =
        ["layers.many", "layers.one"].map(|name| scratch.path().join("data/images").join(name));
    let count = |folder: &PathBuf| fs::read_dir(folder).expect("layers").count();
    assert_eq!(folders.iter().map(count).sum::<usize>(), 3);
    comes_up(&scratch, "layout:1");
    comes_up(&scratch, "saved:1");
    let digest = pulled[0]["digest"].as_str().expect("a digest").to_owned();
    let by_digest = format!("{address}/a/b@{digest}");
    netloom(&scratch, &["image", "pull", &by_digest], &[]).code(0);
    // The same, packed by zstd.
    let zstd = format!("{address}/a/zstd:1");
    let how = "--dest-compress-format zstd --dest-compress-level 3 --dest-force-compress-format";
    let supported = shell(&scratch, "skopeo copy --help", &[]);
    if supported.contains("--dest-force-compress-format") {
        shell(&scratch, copy, &[&zstd, how]);
        netloom(&scratch, &["image", "pull", &zstd], &[]).code(0);
        comes_up(&scratch, &zstd);
    }
    let none = netloom(&scratch, &["image", "pull", &format!("{address}/a/none:1")], &[]).code(1);
    none.says("/a/none:1\": 127.0.0.1:").says(" has no such image");
    netloom(&scratch, &["image", "prune", "--all"], &[]).code(0);
}

#[test]
fn tls_and_logins_are_obeyed() {
    needs!("docker-registry", "skopeo", "umoci", "busybox", "openssl", "htpasswd");
    let scratch = Scratch::new();
    make(&scratch);
    shell(
        &scratch,
        "new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'\n\
         $new -x509 -days 2 -subj /CN=authority -keyout ca.key -out ca.pem 2>/dev/null\n\
         $new -subj /CN=localhost -keyout key.pem -out asked.pem 2>/dev/null\n\
         echo subjectAltName=DNS:localhost >names\n\
         openssl x509 -req -days 2 -in asked.pem -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out own.pem 2>/dev/null\n\
         htpasswd -Bbc users me secret",
        &[],
    );
    let at = |name: &str| scratch.path().join(name);
    let tls = format!(
        ", tls: {{certificate: {}, key: {}}}",
        at("own.pem").display(),
        at("key.pem").display()
    );
    let auth = format!("auth: {{htpasswd: {{realm: here, path: {}}}}}\n", at("users").display());
    let (_registry, address) = registry(&scratch, &tls, &auth);
    let address = address.replace("127.0.0.1", "localhost");
    let image = format!("{address}/a/b:1");
    let copy = "skopeo copy --policy policy.json --dest-tls-verify=false --dest-creds me:secret oci:img:1 docker://$1";
    shell(&scratch, copy, &[&image]);
    let pull = ["image", "pull", image.as_str()];
    let trusted = at("ca.pem");
    // A certificate that nobody signed is not taken.
    netloom(&scratch, &pull, &[]).code(1).says("UnknownIssuer");
    let certificate = [("SSL_CERT_FILE", trusted.as_path())];
    netloom(&scratch, &pull, &certificate).code(1).says("refuses it (401)").says("needs a login");
    let login = "mkdir -p docker; printf '{\"auths\": {\"%s\": {\"auth\": \"%s\"}}}' \"$1\" \"$(printf me:secret | base64)\" >docker/config.json";
    shell(&scratch, login, &[&address]);
    let docker = at("docker");
    let with_login = [("SSL_CERT_FILE", trusted.as_path()), ("DOCKER_CONFIG", docker.as_path())];
    netloom(&scratch, &pull, &with_login).code(0);
    comes_up(&scratch, &image);
    netloom(&scratch, &["image", "prune", "--all"], &[]).code(0);
}

/// Docker's program where `make peers` has unpacked it.
const UNPACKED: &str = "/usr/local/lib/netloom-peers/docker";

/// Docker keeps a key in /etc.
const OWN_ETC: &str = r#"mkdir "$1" && cp /etc/passwd /etc/group /etc/hosts /etc/ld.so.cache "$1"
mount --bind "$1" /etc && shift && exec "$@""#;

/// Docker's daemon in namespaces of its own, so that everything it starts and mounts ends with it.
fn docker(scratch: &Scratch) -> (Running, PathBuf) {
    let at = |name: &str| scratch.path().join(name);
    let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
    let (socket, log) = (at("docker.sock"), at("docker.log"));
    let file = fs::File::create(&log).expect("make the log");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{path}:/usr/sbin:/sbin:{UNPACKED}/usr/sbin:{UNPACKED}/usr/bin");
    let child = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["sh", "-c", OWN_ETC, "sh"])
        .arg(at("etc"))
        .arg("dockerd")
        .args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"])
        .args(["--storage-driver=vfs", "--insecure-registry=127.0.0.0/8"])
        .args([flag("data-root", &at("docker")), flag("exec-root", &at("docker-run"))])
        .args([flag("pidfile", &at("docker.pid")), format!("--host=unix://{}", socket.display())])
        .env("PATH", path)
        .env("LD_LIBRARY_PATH", format!("{UNPACKED}/usr/lib/x86_64-linux-gnu"))
        .env("HOME", scratch.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("the log"))
        .stderr(file)
        .spawn()
        .expect("start unshare");
    let mut running = Running(child);
    let is_up = wait_until("Docker listens, or ends", Duration::from_secs(60), || {
        let said = fs::read_to_string(&log).unwrap_or_default();
        match said.contains("API listen on") {
            true => Some(true),
            false => (!running.is_alive()).then_some(false),
        }
    });
    assert!(is_up, "{}", fs::read_to_string(&log).unwrap_or_default());
    (running, socket)
}

#[test]
fn images_come_from_docker_itself() {
    root_only!("Docker's daemon");
    needs!("dockerd", "skopeo", "umoci", "busybox", "curl", "unshare");
    let scratch = Scratch::new();
    make(&scratch);
    let (_docker, socket) = docker(&scratch);
    let host = format!("unix://{}", socket.display());
    let netloom = |words: &[&str]| netloom(&scratch, words, &[("DOCKER_HOST", Path::new(&host))]);
    let post = "curl --silent --show-error --fail --unix-socket docker.sock --header Content-Type:application/x-tar \
                --data-binary @$1 \"http://docker/$2\"";
    shell(&scratch, post, &["saved.tar", "images/load"]);
    shell(&scratch, "tar -cf root.tar -C root .", &[]);
    let imported = "images/create?fromSrc=-&repo=box&changes=ENV%20COLOUR=red";
    shell(&scratch, post, &["root.tar", imported]);
    // An image of several layers by its name, and one of a root.
    let pulled = netloom(&["image", "pull", "docker-daemon:a/b:1", "docker-daemon:box", "--json"]);
    let pulled = pulled.code(0).json();
    assert_eq!(pulled[0]["layers"].as_array().map(Vec::len), Some(3));
    assert_eq!(pulled[1]["layers"].as_array().map(Vec::len), Some(1));
    assert_eq!(pulled[1]["name"], "docker-daemon:box:latest");
    comes_up(&scratch, "docker-daemon:a/b:1");
    // Under a name of one's own, and by an ID.
    netloom(&["image", "load", "docker-daemon:a/b:1", "--name", "own:1"]).code(0);
    comes_up(&scratch, "own:1");
    let id = pulled[1]["digest"].as_str().expect("an ID").to_owned();
    let by_id = format!("docker-daemon:{id}");
    let again = netloom(&["image", "pull", &by_id, "--json"]).code(0).json();
    assert_eq!((&again[0]["digest"], &again[0]["name"]), (&pulled[1]["digest"], &by_id.into()));
    // A lab has Docker's image at once.
    let file = scratch.file(
        "straight.yaml",
        "name: straight\nnodes: {a: {image: \"docker-daemon:box\", pull: always, run: []}}\n",
    );
    {
        let _guard = scratch.guard();
        let up = scratch.netloom(["up".as_ref(), file.as_os_str()]);
        up.env("DOCKER_HOST", &host).finish().code(0);
        let colour = scratch.netloom(["exec", "a", "--", "sh", "-c", "echo $COLOUR"]).finish();
        assert_eq!(colour.code(0).text(), "red\n");
        scratch.netloom(["down"]).finish().code(0);
    }
    netloom(&["image", "pull", "docker-daemon:none"])
        .code(1)
        .says("\"docker-daemon:none:latest\": Docker has no such image");
    let away = [("DOCKER_HOST", Path::new("tcp://127.0.0.1:1"))];
    self::netloom(&scratch, &["image", "pull", "docker-daemon:box"], &away)
        .code(1)
        .says("only Docker on this machine (unix://SOCKET) is asked");
    netloom(&["image", "prune", "--all"]).code(0);
}
