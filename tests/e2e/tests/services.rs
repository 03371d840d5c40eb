//! Servers of the distribution in an ordinary user's lab, as their packages run them: they begin as root and change to
//! users of their own.

use std::path::{Path, PathBuf};
use std::time::Duration;

use netloom_tests_e2e::given::{Given, libraries, server};
use netloom_tests_e2e::{Run, Scratch, machine, needs, ordinary_only, root_only, skip, wait_until};

/// How long daemons may take to find each other, also where tests keep all processors busy.
const BOUND: Duration = Duration::from_secs(180);

/// FRR in a row of three routers by OSPF and BGP, BIRD beside BIRD, a web server, a name server and their client.
const LAB: &str = r#"
name: services
ids: IDS
routing: none
pool: {ipv6: none}
x-frr: &frr
  forwarding: true
  privileged: true
  setup: [[/usr/lib/frr/zebra, -d]]
  run: [[/usr/lib/frr/ospfd, -f, /srv/ospf.conf], [/usr/lib/frr/bgpd, -f, /srv/bgp.conf]]
x-ospf: &ospf |
  interface eth0
   ip ospf network point-to-point
   ip ospf hello-interval 1
   ip ospf dead-interval 20
   ip ospf retransmit-interval 1
  interface eth1
   ip ospf network point-to-point
   ip ospf hello-interval 1
   ip ospf dead-interval 20
   ip ospf retransmit-interval 1
  router ospf
   network 10.0.0.0/8 area 0
x-bird: &bird
  env: LIBRARIES
  run: [[BIRD, -f, -u, bird, -g, bird, -c, /srv/bird.conf, -s, /run/bird.ctl]]
x-users: &users "root:x:0:0::/root:/bin/sh\nbird:x:500:500::/:/bin/false\n"
x-groups: &groups "root:x:0:\nbird:x:500:\n"
nodes:
  r1:
    <<: *frr
    files:
      /srv/ospf.conf: *ospf
      /srv/bgp.conf: |
        router bgp 65001
         no bgp ebgp-requires-policy
         neighbor 10.1.0.2 remote-as 65002
         neighbor 10.1.0.2 timers connect 1
  r2:
    <<: *frr
    files:
      /srv/ospf.conf: *ospf
      /srv/bgp.conf: |
        router bgp 65002
         no bgp ebgp-requires-policy
         neighbor 10.1.0.1 remote-as 65001
         neighbor 10.1.0.1 timers connect 1
         neighbor 10.2.0.2 remote-as 65003
         neighbor 10.2.0.2 timers connect 1
  r3:
    <<: *frr
    files:
      /srv/ospf.conf: *ospf
      /srv/bgp.conf: |
        router bgp 65003
         no bgp ebgp-requires-policy
         neighbor 10.2.0.1 remote-as 65002
         neighbor 10.2.0.1 timers connect 1
  b1:
    <<: *bird
    files:
      /etc/passwd: *users
      /etc/group: *groups
      /srv/bird.conf: |
        router id 10.5.0.1;
        protocol device {}
        protocol static { ipv4; route 198.51.100.0/24 blackhole; }
        protocol bgp peer {
          local 10.5.0.1 as 65101; neighbor 10.5.0.2 as 65102; connect retry time 1; connect delay time 1;
          ipv4 { import all; export all; };
        }
  b2:
    <<: *bird
    files:
      /etc/passwd: *users
      /etc/group: *groups
      /srv/bird.conf: |
        router id 10.5.0.2;
        protocol device {}
        protocol kernel { ipv4 { export all; }; }
        protocol bgp peer {
          local 10.5.0.2 as 65102; neighbor 10.5.0.1 as 65101; connect retry time 1; connect delay time 1;
          ipv4 { import all; export all; };
        }
  web:
    env: LIBRARIES
    files:
      /srv/www/index.html: "it is served\n"
      /srv/nginx.conf: |
        user www-data;
        worker_processes 2;
        error_log stderr;
        pid /run/nginx.pid;
        daemon off;
        events {}
        http {
          access_log off;
          client_body_temp_path /run/nginx-body;
          proxy_temp_path /run/nginx-proxy;
          fastcgi_temp_path /run/nginx-fastcgi;
          uwsgi_temp_path /run/nginx-uwsgi;
          scgi_temp_path /run/nginx-scgi;
          server { listen 80; root /srv/www; }
        }
    run: [[NGINX, -e, stderr, -c, /srv/nginx.conf]]
    ready: {tcp: 80}
  dns:
    run: [[dnsmasq, --keep-in-foreground, --conf-file=/dev/null, --no-resolv, --no-hosts, --user=nobody,
           "--address=/it.example/192.0.2.7"]]
    ready: {tcp: 53}
  client:
    files: {/etc/resolv.conf: "nameserver 10.4.0.2\n"}
links:
  - {ends: [r1, r2], addresses: {r1: 10.1.0.1/30, r2: 10.1.0.2/30}}
  - {ends: [r2, r3], addresses: {r2: 10.2.0.1/30, r3: 10.2.0.2/30}}
  - {ends: [client, web], addresses: {client: 10.3.0.1/30, web: 10.3.0.2/30}}
  - {ends: [client, dns], addresses: {client: 10.4.0.1/30, dns: 10.4.0.2/30}}
  - {ends: [b1, b2], addresses: {b1: 10.5.0.1/30, b2: 10.5.0.2/30}}
"#;

/// The servers that `make peers` unpacks.
struct Servers {
    nginx: PathBuf,
    bird: PathBuf,
    sshd: PathBuf,
}

/// The servers, which are there.
fn servers() -> Servers {
    let [nginx, bird, sshd] = ["nginx", "bird", "sshd"].map(|name| server(name).expect(name));
    Servers { nginx, bird, sshd }
}

fn lab(servers: &Servers, ids: &str) -> String {
    let path = |path: &Path| path.display().to_string();
    LAB.replace("IDS", ids)
        .replace("LIBRARIES", &libraries())
        .replace("NGINX", &path(&servers.nginx))
        .replace("BIRD", &path(&servers.bird))
}

/// Asserts that all of the lab's servers do their work; `exec` runs something in a node.
fn all_serve(exec: &dyn Fn(&str, &[&str]) -> Run) {
    let shown = |words: &'static str| exec("r2", &["vtysh", "-c", words]).finish().text();
    for (words, key, done) in [
        ("show bgp summary json", "\"state\":\"Established\"", 2),
        ("show ip ospf neighbor json", "\"nbrState\":\"Full", 2),
    ] {
        wait_until(&format!("{done} times {key}"), BOUND, || {
            let text = shown(words).replace(' ', "");
            (text.matches(key).count() == done).then_some(())
        });
    }
    wait_until("BIRD's route in the kernel", BOUND, || {
        let routes = exec("b2", &["ip", "route"]).ok();
        routes.contains("198.51.100.0/24 via 10.5.0.1").then_some(())
    });
    assert_eq!(exec("client", &["curl", "-fsS", "http://10.3.0.2/"]).ok(), "it is served\n");
    assert!(exec("client", &["getent", "ahostsv4", "it.example"]).ok().starts_with("192.0.2.7 "));
}

/// The users of a node's processes whose command lines contain this.
fn users(exec: &dyn Fn(&str, &[&str]) -> Run, node: &str, of: &str) -> Vec<String> {
    let all = exec(node, &["ps", "-eo", "user:20=,args="]).ok();
    let mine = all.lines().filter(|line| line.contains(of) && !line.contains("ps -eo"));
    let mut users: Vec<String> =
        mine.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    users.sort();
    users.dedup();
    users
}

/// What Debian's package of nginx and its first start leave: its settings, a page, logs and directories of www-data's.
const INSTALLED: &str = r#"
rm -rf /etc/nginx
cp -a "$PACKAGES/etc/nginx" /etc/nginx
ln -s /etc/nginx/sites-available/default /etc/nginx/sites-enabled/default
var="$HOME/var"
mkdir -p "$var"
mount -t tmpfs none "$var"
mkdir -p "$var/log/nginx" "$var/www/html" "$var/tmp"
chmod 1777 "$var/tmp"
for name in body fastcgi proxy scgi uwsgi; do mkdir -p "$var/lib/nginx/$name"; done
chmod 700 "$var"/lib/nginx/*
touch "$var/log/nginx/error.log" "$var/log/nginx/access.log"
chmod 640 "$var"/log/nginx/*
chown -R 33:4 "$var"/log/nginx/*.log "$var"/lib/nginx/*
echo page >"$var/www/html/index.html"
mount --bind "$var" /var
umount "$var"
"#;

#[test]
fn nginx_serves_by_the_settings_of_its_package() {
    root_only!("gives files to other users");
    needs!("services", "curl", "setpriv", "unshare");
    let nginx = servers().nginx;
    let packages = nginx.ancestors().nth(3).expect("usr/sbin/nginx");
    for ids in ["real", "fake"] {
        let given = match Given::new() {
            Ok(given) => given,
            Err(reason) => skip!("{reason}"),
        };
        let file = given.file(&format!(
            "name: packaged\nnodes:\n  web:\n    ids: {ids}\n    env: {}\n    ready: {{tcp: 80}}\n    \
             run: [[{}, -g, daemon off;]]\n",
            libraries(),
            nginx.display()
        ));
        let up = given.netloom(["up".as_ref(), file.as_os_str()]);
        let up = up.env("NETLOOM_TEST_BEFORE", INSTALLED).env("PACKAGES", packages);
        up.finish().code(0);
        // It is written when the answer is sent.
        let log = "/var/log/nginx/access.log";
        let got = format!(
            "curl -fsS http://127.0.0.1/ && until test -s {log}; do sleep 0.05; done; wc -l <{log}"
        );
        let got = ["sh", "-c", &got];
        assert_eq!(given.exec("web", &got).ok(), "page\n1\n", "{ids}");
        given.down();
    }
}

#[test]
fn daemons_serve_with_fake_ids() {
    ordinary_only!("root's nodes have all users");
    needs!("frr", "dnsmasq", "services", "curl", "ps");
    let servers = servers();
    let machine = machine!();
    machine.up(&lab(&servers, "fake"));
    let exec = |node: &str, words: &[&str]| machine.exec(node, words);
    all_serve(&exec);
    assert_eq!(users(&exec, "web", "nginx"), ["root"]);
    assert_eq!(users(&exec, "r2", "/usr/lib/frr/"), ["root"]);
    machine.down();
}

#[test]
fn daemons_serve_as_their_own_users_with_real_ids() {
    needs!("frr", "dnsmasq", "services", "curl", "ps", "setpriv", "unshare");
    let servers = servers();
    let given = match Given::new() {
        Ok(given) => given,
        Err(reason) => skip!("{reason}"),
    };
    given.up(&lab(&servers, "real"));
    let exec = |node: &str, words: &[&str]| given.exec(node, words);
    all_serve(&exec);
    assert_eq!(users(&exec, "web", "nginx"), ["root", "www-data"]);
    assert_eq!(users(&exec, "r2", "/usr/lib/frr/"), ["frr"]);
    assert_eq!(users(&exec, "b1", "bird"), ["bird"]);
    assert_eq!(users(&exec, "dns", "dnsmasq"), ["nobody"]);
    given.down();
}

/// A server that lets one user in by a key, and a client with it.
const LOGIN: &str = r#"
name: login
nodes:
  srv:
    env: LIBRARIES
    files:
      /etc/passwd: "root:x:0:0::/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\nann:x:1000:1000::/srv/ann:/bin/sh\n"
      /etc/group: "root:x:0:\nnogroup:x:65534:\nann:x:1000:\nstaff:x:50:ann\n"
      /etc/shadow: "root:*:19000:0:99999:7:::\nann:*:19000:0:99999:7:::\n"
      /srv/hostkey: {text: @HOST@, mode: "0600"}
      /srv/ann/.ssh/authorized_keys: {text: @PUBLIC@, owner: ann, group: ann, mode: "0600"}
      /srv/sshd_config: "HostKey /srv/hostkey\nUsePAM no\nPidFile none\n"
    setup: [[mkdir, -p, -m, "0755", /run/sshd]]
    run: [[SSHD, -D, -e, -f, /srv/sshd_config]]
    ready: {tcp: 22}
  client:
    files: {/srv/key: {text: @PRIVATE@, mode: "0600"}}
links: [[srv, client]]
"#;

#[test]
fn sshd_lets_a_user_in_with_real_ids() {
    needs!("services", "ssh", "setpriv", "unshare");
    let servers = servers();
    let given = match Given::new() {
        Ok(given) => given,
        Err(reason) => skip!("{reason}"),
    };
    let folder = Scratch::new();
    let key = |name: &str| {
        let path = folder.path().join(name);
        let make =
            ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path.to_str().expect("a path")];
        Run::new("ssh-keygen").args(make).ok();
        let text = |path: &Path| std::fs::read_to_string(path).expect("a key");
        (format!("{:?}", text(&path)), format!("{:?}", text(&path.with_extension("pub"))))
    };
    let ((private, public), (host, _)) = (key("client"), key("host"));
    let text = LOGIN
        .replace("LIBRARIES", &libraries())
        .replace("SSHD", &servers.sshd.display().to_string())
        .replace("@HOST@", &host)
        .replace("@PUBLIC@", &public)
        .replace("@PRIVATE@", &private);
    given.up(&text);
    let ask = "ssh -q -i /srv/key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
               ann@srv id -un; id -Gn; touch /tmp/x; stat -c %U:%G /tmp/x";
    let mut words: Vec<&str> = ask.splitn(12, ' ').collect();
    words.retain(|word| !word.is_empty());
    let told = given.exec("client", &words).ok();
    assert_eq!(told, "ann\nann staff\nann:ann\n");
    given.down();
}
