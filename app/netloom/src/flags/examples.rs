//! Examples of every verb for `--help` and the man pages, and verb-specific exit codes.
//!
//! A test parses every example.

/// Examples and exit codes of a verb.
pub(crate) struct Uses {
    /// `link set`; empty for netloom itself.
    pub(crate) verb: &'static str,
    /// A command line, and its effect.
    pub(crate) examples: &'static [(&'static str, &'static str)],
    /// Exit codes that differ from [`EXIT`], or are additional.
    pub(crate) exit: &'static [(&'static str, &'static str)],
}

/// The exit codes of all verbs.
pub(crate) const EXIT: &[(&str, &str)] = &[
    ("0", "Done."),
    ("1", "Failed while running."),
    ("2", "Wrong usage or an invalid file."),
    (
        "3",
        "Not supported on this machine: the message says what is missing, and what to do about it.",
    ),
];

/// The examples of a verb, by its words: `link set`.
pub(crate) fn of(verb: &str) -> Option<&'static Uses> {
    USES.iter().find(|uses| uses.verb == verb)
}

/// The examples as `--help` shows them.
pub(crate) fn text(uses: &Uses) -> String {
    let lines = uses.examples.iter().map(|(line, what)| format!("  # {what}\n  {line}\n"));
    format!("Examples:\n{}", lines.collect::<String>().trim_end())
}

/// The exit codes of verbs that change a switch.
const FLOW_EXIT: &[(&str, &str)] =
    &[("1", "Failed while running, or the switch refused a change; all others were made.")];

const fn uses(verb: &'static str, examples: &'static [(&'static str, &'static str)]) -> Uses {
    Uses { verb, examples, exit: &[] }
}

const USES: &[Uses] = &[
    uses(
        "",
        &[
            ("netloom up examples/two-sites.yaml", "bring up a lab"),
            ("netloom exec h1 -- ping -c 3 web", "run a program in one of its nodes"),
            ("netloom status", "see what there is, and what it uses"),
            ("netloom down", "take it down, with all that belongs to it"),
        ],
    ),
    Uses {
        verb: "apply",
        examples: &[
            (
                "netloom apply two-sites.yaml",
                "change what the file says by now, and leave the rest as it is",
            ),
            (
                "netloom apply --check two-sites.yaml",
                "exit with 4 if the lab is not as the file says",
            ),
            (
                "netloom apply --yes --keep-drift two-sites.yaml",
                "ask nothing, and keep manual changes",
            ),
        ],
        exit: &[("4", "With --check: the lab is not as the file says.")],
    },
    uses(
        "up",
        &[
            ("netloom up two-sites.yaml", "bring up the lab of this file, or mend it if it runs"),
            ("netloom up campus.yaml --on hosts.yaml", "on the hosts of a file, a part on each"),
            (
                "netloom up --name second two-sites.yaml",
                "the same network once more, beside the first",
            ),
            (
                "netloom up --replace two-sites.yaml",
                "take down what runs and bring up what the file says now",
            ),
        ],
    ),
    uses(
        "run",
        &[(
            "netloom run two-sites.yaml",
            "bring up the lab, show what its programs print, take it down on Ctrl-C",
        )],
    ),
    uses(
        "down",
        &[
            ("netloom down", "the only lab that runs"),
            ("netloom down two-sites.yaml", "the lab of this file"),
            ("netloom down --all", "all your labs"),
            ("netloom down campus --on hosts.yaml", "on all hosts of a file"),
        ],
    ),
    uses(
        "test",
        &[
            (
                "netloom test two-sites.yaml",
                "bring the lab up, check what it expects, take it down",
            ),
            (
                "netloom test labs --junit results.xml",
                "all labs of a folder, as many at once as fit",
            ),
            ("netloom test labs --captures frames", "keep the frames of steps that do not hold"),
            ("netloom test labs --jobs 1 --json", "one after the other, with JSON"),
        ],
    ),
    Uses {
        verb: "check",
        examples: &[
            ("netloom check two-sites.yaml torus.yaml", "all errors of two files"),
            (
                "netloom check two-sites.yaml --on hosts.yaml --costs",
                "which host would make what, and what that costs",
            ),
        ],
        exit: &[("2", "A file has errors, or cannot be read.")],
    },
    Uses {
        verb: "fmt",
        examples: &[
            ("netloom fmt two-sites.yaml torus.yaml", "set two files in one style"),
            ("netloom fmt --check *.yaml", "exit with 4 if a file is in another style"),
            ("netloom fmt - <two-sites.yaml", "the same on standard output, as editors want it"),
        ],
        exit: &[
            ("2", "A file has errors, or cannot be formatted; it stays as it is."),
            ("4", "With --check: a file is in another style."),
        ],
    },
    uses(
        "new",
        &[
            ("netloom new", "the labs to begin with"),
            ("netloom new two-sites", "a commented two-sites.yaml"),
            ("netloom new fat-tree 8 -o dc.yaml", "a data centre of switches with 8 ports"),
        ],
    ),
    uses("example", &[("netloom example two-sites", "a lab of two sites, up at once")]),
    uses(
        "import",
        &[
            ("netloom import lab.clab.yml -o lab.yaml", "a lab of containerlab as a lab file"),
            (
                "netloom import --strict kathara-lab",
                "a folder of Kathara, if nothing of it is left out",
            ),
        ],
    ),
    uses(
        "export",
        &[
            ("netloom export lab -o lab.yaml", "a running lab as a lab file"),
            ("netloom export containerlab lab.yaml", "a lab for containerlab"),
            ("netloom export c9s lab.yaml", "a lab for c9s on Kubernetes, a pod for each node"),
            ("netloom export kubernetes lab.yaml --parts 3", "pods for the parts of a lab"),
        ],
    ),
    uses(
        "export c9s",
        &[(
            "netloom export c9s lab.yaml --image alpine:3 | kubectl apply -f -",
            "a topology that c9s brings up",
        )],
    ),
    uses(
        "export kubernetes",
        &[
            (
                "netloom export kubernetes lab.yaml --parts 3 | kubectl apply -f -",
                "a job of three pods",
            ),
            (
                "netloom export kubernetes lab.yaml --parts 3 --pods pods.json -o hosts.yaml",
                "the hosts file of its pods",
            ),
        ],
    ),
    uses(
        "export lab",
        &[
            ("netloom export lab -o lab.yaml", "the only running lab, with changes by hand"),
            ("netloom export lab demo", "that of a name, on standard output"),
        ],
    ),
    uses(
        "export containerlab",
        &[("netloom export containerlab lab.yaml -o lab.clab.yml", "a lab as a topology")],
    ),
    uses("schema", &[("netloom schema > netloom.schema.json", "a schema for editors")]),
    uses(
        "ls",
        &[
            ("netloom ls", "your labs and how they are"),
            ("netloom ls --json", "the same for programs"),
        ],
    ),
    uses(
        "status",
        &[
            ("netloom status", "the only lab that runs"),
            ("netloom status two-sites --json", "one of several, as JSON"),
            ("netloom status campus --on hosts.yaml", "on all hosts of a file"),
            ("netloom status --limit 50 --after h50", "a part of a large one"),
        ],
    ),
    uses(
        "events",
        &[
            ("netloom events", "what changes in the only lab that runs, until it is taken down"),
            (
                "netloom events two-sites --json",
                "a snapshot, then what is different each second, an object a line",
            ),
        ],
    ),
    uses(
        "top",
        &[
            ("netloom top", "the only lab that runs, or a list of labs to choose from"),
            ("netloom top two-sites --once", "all tables of one of several, once"),
        ],
    ),
    uses(
        "node",
        &[
            ("netloom node list", "all nodes"),
            ("netloom node set h1 cpu=50%", "limit one while it runs"),
        ],
    ),
    uses(
        "node create",
        &[
            ("netloom node create h9", "a node without links"),
            (
                "netloom node create tenant/h1 cpu=50% memory=256MiB",
                "a node inside another one, with limits",
            ),
        ],
    ),
    uses(
        "node delete",
        &[
            ("netloom node delete h9", "a node nothing runs in"),
            ("netloom node delete --force h9", "whatever lives in it"),
        ],
    ),
    uses(
        "node list",
        &[
            ("netloom node list", "use and limits of the nodes, 200 at a time"),
            ("netloom node list --after h200", "the next ones"),
        ],
    ),
    uses(
        "node show",
        &[("netloom node show h1", "one node: limits, accounts, interfaces, programs")],
    ),
    uses(
        "node pause",
        &[("netloom node pause vm1", "a virtual machine's time stands still until it is resumed")],
    ),
    uses("node resume", &[("netloom node resume vm1", "its time goes on")]),
    uses(
        "node save",
        &[(
            "netloom node save vm1",
            "memory, processors and disk of a virtual machine, until the lab ends",
        )],
    ),
    uses("node restore", &[("netloom node restore vm1", "as it was when it was saved")]),
    uses(
        "node set",
        &[
            ("netloom node set h1 cpu=50% memory=256MiB", "new limits, from now on"),
            ("netloom node set web packets=200k/s", "a budget for traffic to it"),
            ("netloom node set h1 cpu=none", "no limit any more"),
        ],
    ),
    uses(
        "node move-control",
        &[("netloom node move-control r1", "FRR's daemons restart in a fresh node")],
    ),
    uses(
        "node move-interface",
        &[
            ("netloom node move-interface h1:eth0 h2", "from one node to another"),
            (
                "netloom node move-interface host:eth1 h1 --name lan0",
                "a card of the host into a node",
            ),
            ("netloom node move-interface h1:lan0 host", "and back"),
        ],
    ),
    uses(
        "link",
        &[
            ("netloom link list", "all links"),
            ("netloom link set r1:eth1 --delay 20ms", "what r1 sends takes longer"),
            ("netloom link create h9 s1", "a new link, with automatic addresses"),
        ],
    ),
    uses(
        "link create",
        &[
            ("netloom link create h9 s1", "a node and a switch"),
            (
                "netloom link create r1 r3:wan0 --delay 20ms",
                "two nodes, a name for an interface, a delay",
            ),
            (
                "netloom link create h9 h1 --address h9=10.9.0.1/24 --address h1=10.9.0.2/24",
                "addresses by hand",
            ),
        ],
    ),
    uses("link delete", &[("netloom link delete h9 s1", "the link between the two")]),
    uses("link list", &[("netloom link list", "what all links do to packets")]),
    uses(
        "link show",
        &[("netloom link show r1:eth1", "one link, with the counters of its packets so far")],
    ),
    uses(
        "link set",
        &[
            (
                "netloom link set r1:eth1--r2:eth0 --delay 10ms --loss 0.1%",
                "both directions of a link",
            ),
            ("netloom link set r1:eth1 --rate 10mbit --queue 50ms", "only what r1 sends"),
            ("netloom link set r1:eth1 --loss none", "no loss any more"),
            ("netloom link set r1:eth1--r2:eth0 --clear", "a plain link again"),
            ("netloom link set r1 r2 --down", "pull the cable between r1 and r2"),
        ],
    ),
    uses(
        "link fates",
        &[("netloom link fates r1:eth1 --count 100", "what happens to the next 100 packets")],
    ),
    uses(
        "switch",
        &[
            ("netloom switch list", "all switches"),
            ("netloom switch show s1", "ports and counters of one"),
        ],
    ),
    uses(
        "switch create",
        &[
            ("netloom switch create wall", "a switch in shared memory"),
            ("netloom switch create wall mode=0660 group=kvm", "one that a group may join"),
        ],
    ),
    uses("switch delete", &[("netloom switch delete wall", "a switch nobody uses")]),
    uses("switch list", &[("netloom switch list", "switches of all kinds")]),
    uses(
        "switch show",
        &[("netloom switch show wall", "its process, ports, counters and mirror sessions")],
    ),
    uses(
        "switch port",
        &[
            ("netloom switch port wall h1:eth0", "show a port"),
            (
                "netloom switch port wall 3 lock=02:00:00:00:00:01",
                "let it send from this address only",
            ),
            ("netloom switch port wall 3 --disconnect", "take its user off"),
        ],
    ),
    uses("switch mac", &[("netloom switch mac wall --port h1:eth0", "what one port has learnt")]),
    uses(
        "switch vlan",
        &[
            ("netloom switch vlan wall h1:eth0 access 7", "frames without a tag belong to VLAN 7"),
            (
                "netloom switch vlan wall r1:eth0 trunk 1-3,7 --native 1",
                "frames with tags of these VLANs",
            ),
            ("netloom switch vlan wall c1:eth0 qinq 20", "a customer's frames in VLAN 20"),
            ("netloom switch vlan wall h1:eth0 none", "no rule"),
        ],
    ),
    uses(
        "switch vlan access",
        &[("netloom switch vlan wall h1:eth0 access 7", "a port of VLAN 7")],
    ),
    uses(
        "switch vlan trunk",
        &[("netloom switch vlan wall r1:eth0 trunk all", "a port of all VLANs, with tags")],
    ),
    uses(
        "switch vlan qinq",
        &[(
            "netloom switch vlan wall c1:eth0 qinq 20 --cvlans 10-19 --tpid 0x8100",
            "VLANs 10 to 19 of a customer within VLAN 20",
        )],
    ),
    uses("switch vlan none", &[("netloom switch vlan wall h1:eth0 none", "a port without a rule")]),
    uses("switch mirror", &[("netloom switch mirror wall", "the sessions of a switch")]),
    uses(
        "switch mirror add",
        &[(
            "netloom switch mirror wall add --to 9 --from h1:eth0,h2:eth0 --filter 'tcp, port 80'",
            "copies of what two ports send and receive",
        )],
    ),
    uses(
        "switch mirror delete",
        &[("netloom switch mirror wall delete 1", "end the first session")],
    ),
    uses(
        "flow",
        &[
            ("netloom flow add s1 in_port=h1,actions=output:h2", "send what h1 sends to h2"),
            ("netloom flow dump s1", "see flow entries, and how many packets they matched"),
        ],
    ),
    Uses {
        verb: "flow add",
        examples: &[
            (
                "netloom flow add s1 in_port=1,actions=output:2 in_port=2,actions=output:1",
                "two entries",
            ),
            ("netloom flow add s1 --file flows.txt", "those of a file, one a line"),
            (
                "netloom flow add tcp:10.0.0.9 priority=0,actions=NORMAL",
                "an entry of any switch that listens for OpenFlow",
            ),
        ],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow mod",
        examples: &[(
            "netloom flow mod s1 ip,actions=drop",
            "let all entries that match IPv4 drop",
        )],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow del",
        examples: &[
            ("netloom flow del s1 table=0,arp", "delete what matches ARP in table 0"),
            ("netloom flow del s1 out_port=2", "delete what sends to port 2"),
            ("netloom flow del s1 --all", "delete everything"),
        ],
        exit: FLOW_EXIT,
    },
    uses(
        "flow dump",
        &[
            ("netloom flow dump s1 table=0,ip", "entries of table 0 that match IPv4"),
            ("netloom flow dump s1 --plain", "as flow add reads them, to keep them in a file"),
        ],
    ),
    uses(
        "flow groups",
        &[
            ("netloom flow groups s1", "groups with their counters"),
            (
                "netloom flow groups s1 add group_id=1,type=all,bucket=output:1,bucket=output:2",
                "a group that sends to two ports",
            ),
        ],
    ),
    Uses {
        verb: "flow groups add",
        examples: &[(
            "netloom flow groups s1 add group_id=1,type=select,bucket=output:1,bucket=output:2",
            "a group that shares flows among two ports",
        )],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow groups mod",
        examples: &[(
            "netloom flow groups s1 mod group_id=1,type=all,bucket=output:3",
            "let group 1 send to port 3 alone",
        )],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow groups del",
        examples: &[(
            "netloom flow groups s1 del group_id=1",
            "delete a group and what sends to it",
        )],
        exit: FLOW_EXIT,
    },
    uses(
        "flow meters",
        &[
            ("netloom flow meters s1", "meters with their counters"),
            (
                "netloom flow meters s1 add meter=1,kbps,band=type=drop,rate=1000",
                "a meter that lets 1 Mb/s through",
            ),
        ],
    ),
    Uses {
        verb: "flow meters add",
        examples: &[(
            "netloom flow meters s1 add meter=1,pktps,band=type=drop,rate=100",
            "a meter that lets 100 packets a second through",
        )],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow meters mod",
        examples: &[(
            "netloom flow meters s1 mod meter=1,kbps,band=type=drop,rate=500",
            "let half of it through",
        )],
        exit: FLOW_EXIT,
    },
    Uses {
        verb: "flow meters del",
        examples: &[(
            "netloom flow meters s1 del meter=all",
            "delete all meters and what uses them",
        )],
        exit: FLOW_EXIT,
    },
    uses("flow ports", &[("netloom flow ports s1", "ports with their counters")]),
    uses(
        "flow trace",
        &[(
            "netloom flow trace s1 in_port=h1,tcp,nw_dst=10.0.0.2,tp_dst=80",
            "why a request to a web server gets through, or not",
        )],
    ),
    uses(
        "flow monitor",
        &[(
            "netloom flow monitor s1",
            "packets for controllers, changes of ports, removed entries",
        )],
    ),
    uses(
        "slice",
        &[
            ("netloom slice show", "the lab's slices: virtual switches, ports, controllers"),
            ("netloom slice stats", "what they use, and what limits denied them"),
        ],
    ),
    uses(
        "slice show",
        &[
            ("netloom slice show", "the lab's slices"),
            ("netloom slice show campus.yaml --json", "those of a slicer that runs for itself"),
        ],
    ),
    uses(
        "slice stats",
        &[("netloom slice stats", "rules, messages, packets and CPU time of each slice")],
    ),
    uses(
        "slice check",
        &[("netloom slice check campus.yaml", "whether slices are apart, and all errors")],
    ),
    uses(
        "slice run",
        &[
            (
                "netloom slice run campus.yaml",
                "wait for switches at 127.0.0.1:6653, and connect to the slices' controllers",
            ),
            (
                "netloom slice run campus.yaml --switch tcp:10.0.0.5:6653",
                "connect to a switch that waits for controllers",
            ),
        ],
    ),
    uses(
        "mcp",
        &[
            ("netloom mcp", "what a client of the Model Context Protocol starts"),
            ("netloom mcp --read-only -l office", "for an agent that may look at one lab"),
        ],
    ),
    uses("lsp", &[("netloom lsp", "what an editor starts for lab files")]),
    uses("plug", &[("netloom plug eth1 wall", "join a card of the host to a switch")]),
    Uses {
        verb: "capture",
        examples: &[
            ("netloom capture h1:eth0 -w h1.pcapng", "one interface, until Ctrl-C"),
            (
                "netloom capture --all -w all.pcapng -d 10s",
                "every link of the lab, for ten seconds",
            ),
            (
                "netloom capture link:r1:eth1--r2:eth0 -w - | wireshark -k -i -",
                "a link, straight into Wireshark",
            ),
            ("netloom capture web -f 'flow:h1->web:80/tcp' -w web.pcapng", "one flow"),
        ],
        exit: &[("0", "Every frame is accounted for."), ("1", "The capture failed.")],
    },
    uses(
        "generate",
        &[
            (
                "netloom generate h1:eth0 --rate 100kpps -d 10s",
                "a million frames to the other end of the link",
            ),
            ("netloom generate web:eth0 --receive", "count what arrives, and how late"),
            ("netloom generate h1:eth0 --to web --size imix --rate 1Gb/s", "the Internet mix"),
        ],
    ),
    uses(
        "replay",
        &[
            ("netloom replay h1.pcapng h1:eth0", "with the gaps of the recording"),
            (
                "netloom replay h1.pcapng h1:eth0 --rate 100kpps --loop 0",
                "at a rate, over and over",
            ),
        ],
    ),
    uses(
        "measure",
        &[
            (
                "netloom measure h1 web --for 20s",
                "loss, delay and jitter of what the two send each other",
            ),
            (
                "netloom measure h1 web --flow 80/tcp --json",
                "one flow apart from the rest, for programs",
            ),
        ],
    ),
    uses(
        "serve",
        &[
            ("netloom serve", "measurements of this host, on loopback"),
            (
                "netloom serve -l two-sites --token-file token",
                "all of a lab's API, with a token that stays",
            ),
            ("netloom -l two-sites serve --page --open", "the lab in a browser"),
        ],
    ),
    Uses {
        verb: "exec",
        examples: &[
            ("netloom exec h1 -- ip address", "a program in a node"),
            (
                "netloom exec --on hosts.yaml -l campus h1 -- ip address",
                "on whichever host the node is",
            ),
            ("netloom exec h1 -- sh -c 'echo $NETLOOM_NODE'", "more than one, by a shell"),
            ("echo hello | netloom exec h1 -- tee /tmp/hello", "with pipes"),
        ],
        exit: &[(
            "*",
            "Otherwise that of the program; 128 and the signal's number when a signal ended it.",
        )],
    },
    Uses {
        verb: "guard",
        examples: &[
            ("netloom guard -- firefox", "ask for whatever it reaches, and remember the answers"),
            (
                "netloom guard --learn net.yaml -- make test",
                "write the smallest policy that allows its calls",
            ),
            (
                "netloom guard --policy net.yaml --frozen -- make test",
                "fail with exit code 4 if it does anything else",
            ),
            (
                "netloom guard --log guard.log --default allow -- make test",
                "only watch: see which program talked to which peer with `netloom guard report guard.log`",
            ),
            ("netloom guard --in h1 -- curl http://web/", "ask for a program in a node"),
        ],
        exit: &[(
            "*",
            "4: --frozen, and the program did something that the policy does not allow. Otherwise that of the program; 128 and the \
                 signal's number when a signal ended it; 126: it cannot be executed; 127: it does not exist.",
        )],
    },
    Uses {
        verb: "guard check",
        examples: &[
            ("netloom guard check net.yaml", "show all errors of a policy"),
            (
                "netloom guard check net.yaml -- curl tcp example.org:443",
                "say what would happen, and by which rule",
            ),
            (
                "netloom guard check net.yaml -- python3 in tcp 127.0.0.1:free",
                "the same for a listener whose port the kernel chooses",
            ),
        ],
        exit: &[
            ("0", "The policy has no errors; the request would be allowed."),
            ("1", "The request would be denied, or asked about."),
        ],
    },
    Uses {
        verb: "guard diff",
        examples: &[("netloom guard diff old.yaml new.yaml", "added and removed rules")],
        exit: &[("0", "They are alike."), ("1", "They differ.")],
    },
    uses(
        "guard report",
        &[
            ("netloom guard report guard.log", "which program talked to which peer"),
            ("netloom guard report guard.log --json", "the same for programs"),
        ],
    ),
    Uses {
        verb: "shell",
        examples: &[("netloom shell h1", "a shell in a node")],
        exit: &[("*", "That of the shell.")],
    },
    uses(
        "logs",
        &[
            ("netloom logs web", "what its programs printed so far"),
            ("netloom logs -n 10", "the last ten lines of every node"),
            ("netloom logs -ft web", "and what they print from now on, with times"),
        ],
    ),
    uses(
        "cp",
        &[
            ("netloom cp app.conf web:/etc/app.conf", "into a node"),
            ("netloom cp web:/var/log/app.log .", "out of one"),
            ("netloom cp web:/etc/hosts - | head", "to standard output"),
        ],
    ),
    Uses {
        verb: "ping",
        examples: &[
            ("netloom ping h1 web", "three requests from one node to another"),
            ("netloom ping --all", "a table of which node reaches which"),
            (
                "netloom ping --all --on hosts.yaml -l campus",
                "between all nodes on the hosts of a file",
            ),
            ("netloom ping --all -4 --json", "only IPv4, for programs"),
        ],
        exit: &[("1", "Some pair does not answer.")],
    },
    Uses {
        verb: "why",
        examples: &[
            ("netloom why h1 web", "where echo requests of h1 to web are lost, and why"),
            ("netloom why h1 web 80/tcp", "the same of a connection to port 80"),
            (
                "netloom why h1 web 80/tcp --try",
                "and whether what is proposed helps, in a copy of the lab",
            ),
            ("netloom why h1 web 53/udp -6 --json", "of datagrams over IPv6, for programs"),
        ],
        exit: &[("1", "The flow does not arrive.")],
    },
    uses(
        "record",
        &[
            (
                "netloom record start --keep 10GiB",
                "keep every frame of every link, the newest 10 GiB",
            ),
            ("netloom record status", "what is recorded, and where every frame has gone"),
        ],
    ),
    uses("record start", &[("netloom record start", "keep the newest 2 GiB of all links")]),
    uses("record stop", &[("netloom record stop", "end the recorder; what was recorded stays")]),
    uses("record status", &[("netloom record status --json", "the account, for programs")]),
    uses("record delete", &[("netloom record delete -l office", "remove what was recorded")]),
    uses(
        "packets",
        &[
            (
                "netloom packets h1 web 80/tcp --last 10s",
                "what passed between two nodes, link by link",
            ),
            (
                "netloom packets --link h1:eth0--s1 --since 12:30:00 --until 12:30:05",
                "five seconds of a link",
            ),
            (
                "netloom packets 'icmp or arp' --last 1m -w icmp.pcapng",
                "what a filter finds, for Wireshark",
            ),
        ],
    ),
    uses(
        "graph",
        &[
            ("netloom graph -o lab.svg", "a picture of the lab that runs"),
            ("netloom graph office.yaml -o office.svg", "of a file"),
            ("netloom graph --file torus.yaml | dot -Tpng -o torus.png", "of a file, by Graphviz"),
        ],
    ),
    uses(
        "image",
        &[
            ("netloom image pull quay.io/frrouting/frr:9.1.0", "an image for `image:` of nodes"),
            ("netloom image build debian --out image", "a kernel and a RAM disk for `kind: vm`"),
        ],
    ),
    uses(
        "image pull",
        &[
            ("netloom image pull alpine quay.io/frrouting/frr:9.1.0", "from two registries"),
            ("netloom image pull docker-daemon:mine:1", "what Docker on this machine has"),
        ],
    ),
    uses(
        "image load",
        &[
            ("netloom image load mine.tar", "what `docker save` wrote"),
            (
                "netloom image load layout --select 1.0 --name lab/mine:1.0",
                "one of an OCI layout's",
            ),
        ],
    ),
    uses("image list", &[("netloom image list", "names, sizes, and the labs that use them")]),
    uses("image show", &[("netloom image show alpine", "its program, environment and layers")]),
    uses("image remove", &[("netloom image remove alpine", "what no other image needs goes")]),
    uses(
        "image prune",
        &[
            ("netloom image prune", "what no image needs any more"),
            ("netloom image prune --all", "all images that no lab uses"),
        ],
    ),
    uses(
        "image build",
        &[
            (
                "netloom image build debian --out image",
                "a kernel and a RAM disk that boot in seconds",
            ),
            (
                "netloom image build debian --out image --with python3-minimal --with nginx-light",
                "with more packages",
            ),
        ],
    ),
    uses("agent", &[("netloom agent --stdio", "what `up --on` starts on a host, over ssh")]),
    uses("doctor", &[("netloom doctor", "what labs can have on this machine")]),
    uses(
        "completions",
        &[
            ("source <(netloom completions bash)", "for this bash"),
            (
                "netloom completions fish > ~/.config/fish/completions/netloom.fish",
                "for fish, for good",
            ),
        ],
    ),
    uses("man", &[("netloom man /usr/local/share/man/man1", "the pages of all verbs")]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;
    use crate::flags::BENCH;

    /// All verbs that users call, including those with subcommands.
    fn verbs(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        let of_others = |verb: &&clap::Command| verb.is_hide_set() || verb.get_name() == BENCH;
        for verb in command.get_subcommands().filter(|verb| !of_others(verb)) {
            verbs(verb, format!("{path} {}", verb.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_verb_has_an_example_and_every_example_a_verb() {
        let mut all = vec![];
        verbs(&command(), "", &mut all);
        for verb in &all {
            assert!(of(verb).is_some_and(|uses| !uses.examples.is_empty()), "no example: {verb}");
        }
        for uses in USES {
            assert!(all.iter().any(|verb| verb == uses.verb), "no such verb: {}", uses.verb);
        }
    }

    /// The words of netloom's part of a line, split as a shell does.
    fn words(line: &str) -> Vec<String> {
        let start = line.find("netloom").expect(line);
        let (mut words, mut word, mut quoted) = (vec![], String::new(), false);
        for c in line[start..].chars() {
            match c {
                '\'' => quoted = !quoted,
                '|' | '>' | ')' if !quoted => break,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                c => word.push(c),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_example_is_taken_as_it_stands() {
        for (uses, (line, _)) in USES.iter().flat_map(|u| u.examples.iter().map(move |e| (u, e))) {
            let read = command().try_get_matches_from(words(line));
            let mut matches = read.as_ref().unwrap_or_else(|error| panic!("{line}: {error}"));
            let mut verb = String::new();
            while let Some((name, inner)) = matches.subcommand() {
                verb = format!("{verb} {name}").trim_start().to_owned();
                matches = inner;
            }
            assert!(verb.starts_with(uses.verb), "{line} is under {:?}", uses.verb);
        }
    }
}
