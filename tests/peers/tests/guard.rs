//! Others' programs do the same under guard, with everything allowed, as without.
//!
//! Each test runs in a network of its own, where servers outside of guard serve what programs fetch. What differs from run to
//! run by itself (times, process numbers) is taken out by the scripts, by sed.

use netloom_tests_peers::{Ground, isolated, needs};

/// Files behind an HTTP server at port 8080.
fn files() -> Ground {
    up();
    let mut ground = Ground::new();
    ground.prepare("echo hello >file; head -c 3000000 /dev/zero | tr '\\0' x >large");
    ground.serve_files();
    ground
}

fn up() {
    let done = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(done.expect("start ip").success());
}

#[test]
fn pipes_of_a_shell() {
    isolated!({
        let said = Ground::new().alike(
            "n=0; while [ $n -lt 100 ]; do sh -c 'echo a|cat|cat' || echo failed; n=$((n+1)); done",
        );
        assert_eq!(said, "a\n".repeat(100));
    });
}

#[test]
fn curl() {
    needs!("curl", "python3");
    isolated!({
        let said = files().alike(
            "f='%{http_code} %{size_download} %{remote_ip} %{num_connects} %{errormsg}\\n'
             u=http://127.0.0.1:8080
             curl -sS -w \"$f\" $u/file $u/large -o a -o b; echo $?; cmp a b; wc -c b
             curl -sS -w \"$f\" http://localhost:8080/file; echo $?
             curl -fsS -w \"$f\" $u/none; echo $?
             curl -sS -w \"$f\" http://127.0.0.1:9/ 2>&1 | sed 's/after [0-9]* ms//'
             curl -sS -w \"$f\" 'http://[::ffff:127.0.0.1]:8080/file'; echo $?
             curl -sS http://nobody.invalid/; echo $?
             curl -sS -Z $u/file $u/file $u/file $u/file 2>/dev/null; echo $?",
        );
        assert!(said.contains("200 3000000 127.0.0.1") && said.contains("404"), "{said}");
    });
}

#[test]
fn wget() {
    needs!("wget", "python3");
    isolated!({
        let said = files().alike(
            "wget -q -O- http://127.0.0.1:8080/file; echo $?
             wget -nv http://127.0.0.1:8080/large 2>&1 | sed 's/^[-0-9]* [:0-9]* //'; wc -c large
             wget -q -t1 http://127.0.0.1:9/; echo $?; wget -q -r -np -nH http://127.0.0.1:8080/; ls",
        );
        assert!(said.starts_with("hello\n0\n"), "{said}");
    });
}

#[test]
fn apt_get() {
    needs!("apt-get", "apt-ftparchive", "dpkg-deb", "python3");
    isolated!({
        let ground = files();
        ground.prepare(
            "mkdir -p hello/DEBIAN; printf 'Package: hello-netloom\\nVersion: 1\\nArchitecture: all\\n\
             Maintainer: a <a@b.c>\\nDescription: one\\n' >hello/DEBIAN/control
             dpkg-deb -b hello . >/dev/null; apt-ftparchive packages . >Packages; apt-ftparchive release . >Release",
        );
        let said = ground.alike(
            "mkdir -p etc/parts state/lists/partial cache/archives/partial; : >status
             echo 'deb [trusted=yes] http://127.0.0.1:8080/ ./' >etc/list
             # What the machine's own settings run after apt is none of this.
             echo \"Dir::Etc::main \\\"/dev/null\\\"; Dir::Etc::parts \\\"$PWD/etc/parts\\\";\" >etc/conf
             export APT_CONFIG=$PWD/etc/conf
             a=\"apt-get -o APT::Sandbox::User=root -o Dir::Etc=$PWD/etc -o Dir::Etc::sourcelist=$PWD/etc/list \
                -o Dir::Etc::sourceparts=$PWD/etc/parts -o Dir::State=$PWD/state -o Dir::State::status=$PWD/status \
                -o Dir::Cache=$PWD/cache -o Acquire::Languages=none -o Debug::NoLocking=1\"
             $a update 2>&1 | sed 's/ in [0-9]*s (.*//'; echo $?
             $a download hello-netloom 2>&1 | sed 's/ in [0-9]*s (.*//'; ls *.deb",
        );
        assert!(said.contains("hello-netloom_1_all.deb"), "{said}");
    });
}

/// A wheel: an archive with three files.
const WHEEL: &str = "
import zipfile
w = zipfile.ZipFile('hello_netloom-1-py3-none-any.whl', 'w')
i = 'hello_netloom-1.dist-info/'
w.writestr('hello_netloom.py', 'x = 1')
w.writestr(i + 'METADATA', 'Metadata-Version: 2.1\\nName: hello-netloom\\nVersion: 1\\n')
w.writestr(i + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
w.writestr(i + 'RECORD', 'hello_netloom.py,,\\n')
";

#[test]
fn pip() {
    needs!("python3", "pip");
    isolated!({
        let ground = files();
        std::fs::write(ground.served().join("wheel.py"), WHEEL).expect("write");
        ground.prepare(
            "mkdir -p simple/hello-netloom; cd simple/hello-netloom; python3 ../../wheel.py",
        );
        let said = ground.alike(
            "python3 -m pip --disable-pip-version-check --no-cache-dir download -q --no-deps \
             --index-url http://127.0.0.1:8080/simple/ hello-netloom 2>&1; echo $?; ls *.whl
             python3 -m pip --disable-pip-version-check download -q --no-deps --retries 0 \
             --index-url http://127.0.0.1:9/ hello-netloom 2>&1 | sed 's/0x[0-9a-f]*//'; echo $?",
        );
        assert!(said.contains("hello_netloom-1-py3-none-any.whl"), "{said}");
    });
}

#[test]
fn cargo() {
    needs!("cargo", "python3", "sha256sum");
    isolated!({
        let ground = files();
        ground.prepare(
            "mkdir -p hello-netloom-1.0.0/src he/ll crates; cd hello-netloom-1.0.0; : >src/lib.rs
             printf '[package]\\nname = \"hello-netloom\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' >Cargo.toml
             cd ..; tar czf crates/hello-netloom-1.0.0.crate hello-netloom-1.0.0
             sum=$(sha256sum crates/hello-netloom-1.0.0.crate | cut -d' ' -f1)
             echo '{\"dl\":\"http://127.0.0.1:8080/crates/{crate}-{version}.crate\"}' >config.json
             echo \"{\\\"name\\\":\\\"hello-netloom\\\",\\\"vers\\\":\\\"1.0.0\\\",\\\"deps\\\":[],\\\"cksum\\\":\\\"$sum\\\",\
             \\\"features\\\":{},\\\"yanked\\\":false}\" >he/ll/hello-netloom",
        );
        let said = ground.alike(
            "mkdir -p home src; : >src/lib.rs; export CARGO_HOME=$PWD/home
             printf '[package]\\nname = \"a\"\\nversion = \"0.0.0\"\\nedition = \"2021\"\\n[dependencies]\\n\
             hello-netloom = \"1\"\\n' >Cargo.toml
             printf '[source.crates-io]\\nreplace-with = \"here\"\\n[source.here]\\n\
             registry = \"sparse+http://127.0.0.1:8080/\"\\n' >home/config.toml
             cargo fetch 2>&1; echo $?; ls home/registry/cache/*",
        );
        assert!(said.contains("hello-netloom-1.0.0.crate"), "{said}");
    });
}

#[test]
fn git() {
    needs!("git", "python3");
    isolated!({
        let mut ground = files();
        ground.prepare(
            "export GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
             git init -q repo; cd repo; cp ../large .; git add .
             git -c user.name=a -c user.email=a@b.c commit -qm one; cd ..
             git clone -q --bare repo repo.git; git -C repo.git update-server-info",
        );
        let words =
            ["daemon", "--listen=127.0.0.1", "--base-path=.", "--export-all", "--reuseaddr"];
        ground.serve("git", &words, 9418);
        let said = ground.alike(
            "for u in http://127.0.0.1:8080/repo.git git://127.0.0.1/repo.git; do
             git clone $u a 2>&1 | sed 's/.*\\r//'; git -C a log --format=%H; git ls-remote $u; git -C a fetch; echo $?
             rm -rf a; done; git ls-remote git://127.0.0.1/none; echo $?",
        );
        assert!(said.matches("refs/heads/").count() >= 2, "{said}");
    });
}

/// A client and a server, streams and datagrams, in one program.
const NODE: &str = "
const http = require('http'), dgram = require('dgram'), dns = require('dns'), net = require('net');
http.get('http://localhost:8080/file', r => { r.on('data', d => console.log(r.statusCode, String(d).trim()));
  r.on('end', () => net.connect(9, '127.0.0.1').on('error', e => { console.log(e.code);
    const u = dgram.createSocket('udp4'); u.on('message', m => { console.log(String(m)); u.close();
      const s = net.createServer(c => c.end('served')).listen(0, '127.0.0.1', () =>
        net.connect(s.address().port, '127.0.0.1').on('data', d => { console.log(String(d)); s.close();
          dns.lookup('localhost', 4, (e, a) => console.log(a)); })); });
    u.bind(0, '127.0.0.1', () => u.send('datagram', u.address().port, '127.0.0.1')); })); });
";

#[test]
fn node() {
    needs!("node", "python3");
    isolated!({
        let ground = files();
        std::fs::write(ground.served().join("client.js"), NODE).expect("write");
        let said = ground.alike("node ../served/client.js; echo $?");
        assert_eq!(said, "200 hello\nECONNREFUSED\ndatagram\nserved\n127.0.0.1\n0\n");
    });
}

#[test]
fn a_static_busybox() {
    needs!("static-busybox", "python3");
    isolated!({
        let said = files().alike(
            "busybox wget -q -O- http://127.0.0.1:8080/file; echo $?
             busybox wget -q -O large http://localhost:8080/large; busybox wc -c large
             busybox wget -q -O- http://127.0.0.1:9/ 2>&1; echo $?
             printf 'GET /file HTTP/1.0\\r\\n\\r\\n' | busybox nc 127.0.0.1 8080 | busybox tail -n 1
             busybox nslookup a.invalid 127.0.0.1 >/dev/null 2>&1; echo $?",
        );
        assert!(said.starts_with("hello\n0\n"), "{said}");
    });
}

/// Connections, datagrams and a listener, without the C library.
const GO: &str = r#"package main
import ("fmt"; "io"; "net"; "os"; "sync")
func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0"); if err != nil { fmt.Println(err); os.Exit(1) }
	go func() { for { c, err := l.Accept(); if err != nil { return }; go func() { io.Copy(c, c); c.Close() }() } }()
	var all sync.WaitGroup; var lock sync.Mutex; total := 0
	for n := 0; n < 50; n++ { all.Add(1); go func() { defer all.Done()
		c, err := net.Dial("tcp", l.Addr().String()); if err != nil { fmt.Println(err); return }
		c.Write(make([]byte, 1000)); c.(*net.TCPConn).CloseWrite(); b, _ := io.ReadAll(c)
		lock.Lock(); total += len(b); lock.Unlock() }() }
	all.Wait(); fmt.Println(total)
	u, _ := net.ListenPacket("udp", "127.0.0.1:0"); u.WriteTo([]byte("datagram"), u.LocalAddr())
	b := make([]byte, 99); n, _, err := u.ReadFrom(b); fmt.Println(string(b[:n]), err)
	_, err = net.Dial("tcp", "127.0.0.1:9"); fmt.Println(err)
	a, err := net.LookupHost("localhost"); fmt.Println(a, err)
}
"#;

#[test]
fn a_static_go_program() {
    needs!("go");
    isolated!({
        up();
        let ground = Ground::new();
        std::fs::write(ground.served().join("main.go"), GO).expect("write");
        ground
            .prepare("CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-mod=mod go build -o client main.go");
        let said = ground.alike("../served/client; echo $?");
        assert!(said.starts_with("50000\ndatagram <nil>\n") && said.ends_with("\n0\n"), "{said}");
    });
}

#[test]
fn ping_without_privileges() {
    needs!("ping");
    isolated!({
        up();
        // Everybody may send echo requests here.
        drop(std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 0"));
        let said = Ground::new().alike(
            "for a in 127.0.0.1 ::1 192.0.2.1; do
             ping -n -c 2 -i 0.2 $a 2>&1 | sed -E 's/time=[0-9.]+ ms/time/; s/time [0-9]+ms/time/; s/^rtt.*/rtt/'; done",
        );
        assert!(said.contains("2 received"), "{said}");
    });
}

#[test]
fn nc() {
    needs!("nc", "python3");
    isolated!({
        let said = files().alike(
            "printf 'GET /file HTTP/1.0\\r\\n\\r\\n' | nc -w 20 127.0.0.1 8080 | tail -n 1; echo $?
             nc -z -w 20 127.0.0.1 8080; echo $?; nc -z -w 20 127.0.0.1 9; echo $?
             nc -l 127.0.0.1 7000 >got & until echo over | nc -w 1 127.0.0.1 7000; do :; done; wait; cat got
             nc -lU sock >got & until echo local | nc -w 1 -U sock; do :; done 2>/dev/null; wait; cat got",
        );
        assert!(said.starts_with("hello\n0\n0\n1\n"), "{said}");
    });
}

#[test]
fn pythons_own_tests_of_sockets() {
    needs!("test-socket");
    // The distribution's has them in a package of its own; another one in PATH may have them.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("python3"));
    let has_tests = |python: &std::path::PathBuf| {
        let tried = std::process::Command::new(python)
            .args(["-c", "import test.test_socket"])
            .stderr(std::process::Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    let python = all.find(has_tests).expect("the probe has found it");
    isolated!({
        up();
        // Virtual machines' sockets wait for ever where the machine has no such device. Root may change the host's name
        // without guard alone, which takes privileges away.
        let said = Ground::new().alike(&format!(
            "{} -c 'import test.test_socket as t, unittest; del t.ThreadedVSOCKSocketStreamTest
unittest.main(t, argv=[\"test_socket\", \"-v\"])' >out 2>&1; echo $?
             grep -aE '\\.\\.\\. (ok|FAIL|ERROR|skipped|expected)|^(ok|FAIL|ERROR|skipped)' out |
             grep -v test_sethostname | sort",
            python.display()
        ));
        assert!(said.lines().filter(|line| line.ends_with("ok")).count() > 300, "{said}");
    });
}

/// All of the calls that guard makes in a program's place, in the layout of 32 bits.
const THIRTY_TWO: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#define SAY(call) do { errno = 0; long r = (call); printf("%s: %ld %s\n", #call, r, strerror(errno)); } while (0)
int main(void) {
	setbuf(stdout, NULL);
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(8080) };
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int s = socket(AF_INET, SOCK_STREAM, 0);
	SAY(connect(s, (void *)&to, sizeof to));
	SAY(send(s, "GET /file HTTP/1.0\r\n\r\n", 22, 0));
	char b[999]; long n, all = 0; while ((n = recv(s, b, sizeof b, 0)) > 0) all += n;
	printf("%d\n", all > 100); close(s);
	int u = socket(AF_INET, SOCK_DGRAM, 0), v = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in own = to; own.sin_port = htons(7001);
	SAY(bind(u, (void *)&own, sizeof own));
	SAY(sendto(v, "one", 3, 0, (void *)&own, sizeof own));
	struct iovec iov[2] = { { "tw", 2 }, { "o", 1 } };
	struct msghdr m = { .msg_name = &own, .msg_namelen = sizeof own, .msg_iov = iov, .msg_iovlen = 2 };
	SAY(sendmsg(v, &m, 0));
	struct mmsghdr mm[2] = { { m, 0 }, { m, 0 } };
	SAY(sendmmsg(v, mm, 2, 0)); printf("%u %u\n", mm[0].msg_len, mm[1].msg_len);
	for (int i = 0; i < 4; i++) printf("%.*s\n", (int)recv(u, b, sizeof b, 0), b);
	int l = socket(AF_INET, SOCK_STREAM, 0); own.sin_port = htons(7002);
	int one = 1; SAY(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
	SAY(bind(l, (void *)&own, sizeof own)); SAY(listen(l, 5));
	int c = socket(AF_INET, SOCK_STREAM, 0); SAY(connect(c, (void *)&own, sizeof own)); SAY(accept(l, 0, 0) > 0);
	to.sin_port = htons(9); s = socket(AF_INET, SOCK_STREAM, 0); SAY(connect(s, (void *)&to, sizeof to));
	int p[2]; SAY(socketpair(AF_UNIX, SOCK_DGRAM, 0, p));
	union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } k;
	struct msghdr d = { .msg_iov = iov, .msg_iovlen = 1, .msg_control = &k, .msg_controllen = sizeof k };
	struct cmsghdr *h = CMSG_FIRSTHDR(&d); h->cmsg_level = SOL_SOCKET; h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(int)); memcpy(CMSG_DATA(h), &l, sizeof l);
	SAY(sendmsg(p[0], &d, 0)); memset(&k, 0, sizeof k); iov[0].iov_base = b; SAY(recvmsg(p[1], &d, 0)); printf("%d\n", h->cmsg_type);
	struct sockaddr_un x = { .sun_family = AF_UNIX, .sun_path = "x" };
	int y = socket(AF_UNIX, SOCK_STREAM, 0); SAY(bind(y, (void *)&x, sizeof x)); SAY(listen(y, 1));
	int z = socket(AF_UNIX, SOCK_STREAM, 0); SAY(connect(z, (void *)&x, sizeof x));
	struct addrinfo *f; SAY(getaddrinfo("localhost", "80", 0, &f));
	return 0;
}
"#;

#[test]
fn a_program_of_32_bits() {
    needs!("gcc-m32", "python3");
    isolated!({
        let ground = files();
        std::fs::write(ground.served().join("main.c"), THIRTY_TWO).expect("write");
        ground.prepare("gcc -D_GNU_SOURCE -m32 -o client main.c");
        let said = ground.alike("../served/client; echo $?");
        assert!(said.contains("one\ntwo\ntwo\ntwo\n") && said.ends_with("\n0\n"), "{said}");
    });
}
