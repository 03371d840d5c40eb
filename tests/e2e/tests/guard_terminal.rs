//! `guard` on a terminal against programs that draw on it past guard, or type there: by its number, by what they inherit, by
//! other processes, and in mounts of their own.

use std::path::PathBuf;

use netloom_tests_e2e::live::gone;
use netloom_tests_e2e::{
    Machine, Run, Terminal, is_root, kill, machine, needed, needs, ordinary_only, processes,
    wait_until, with_command_line,
};

use super::guard::{KEYS, SOON, Server, go, waiting};

/// Draws on each terminal that it can open or has, types `y` there, and makes the file of its second argument. The
/// first one is the terminal's path; further ones are processes, in the place of all. The drawn text is not in the script.
const ATTACK: &str = r#"
import fcntl, os, subprocess, sys, termios
outer, done = sys.argv[1:3]
text = b'DRA' + b'WN'
# Not on terminals of programs that have nothing to do with this one.
number = int(os.path.basename(outer))
terminals = range(136, 144)
device = os.makedev(136 + number // 256, number % 256)
own_terminals = {(s.st_dev, s.st_rdev) for s in map(os.fstat, range(3))}
def is_others(fd):
    s = os.fstat(fd)
    return os.major(s.st_rdev) in terminals and s.st_rdev != device and (s.st_dev, s.st_rdev) not in own_terminals
def draw(fd):
    try:
        if os.isatty(fd) and not is_others(fd):
            os.set_blocking(fd, False)
            os.write(fd, text)
            fcntl.ioctl(fd, termios.TIOCSTI, b'y')
    except OSError: pass
def draw_at(path, **at):
    try: fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK, **at)
    except OSError: return
    draw(fd); os.close(fd)
def names(folder):
    try: return os.listdir(folder)
    except OSError: return []
def is_own(process):
    try: return os.stat(f'/proc/{process}').st_uid == os.getuid()
    except OSError: return False
name = os.path.basename(outer)
processes = sys.argv[3:] or [p for p in names('/proc') if p.isdigit() and is_own(p)]
for path in [outer, '/dev/tty', '/dev/console', name, './pts/' + name]: draw_at(path)
for path in names('/dev'):
    if path.startswith('tty'): draw_at('/dev/' + path)
for fd in range(3, 20):
    draw(fd)
    for below in [name, 'pts/' + name, 'dev/pts/' + name, '../dev/pts/' + name]:
        try: draw_at(below, dir_fd=fd)
        except OSError: pass
for process in processes:
    for fd in names(f'/proc/{process}/fd'): draw_at(f'/proc/{process}/fd/{fd}')
    for root in ['root', 'cwd']:
        for below in [outer, '/' + name]: draw_at(f'/proc/{process}/{root}{below}')
own = "(printf 'DRA%s' WN >\"$1\") 2>/dev/null"
for way in ['umount -l /dev/pts', 'mount -t devpts devpts /dev/pts', 'mount -t devpts -o newinstance devpts /dev/pts',
            'mount --move /dev/pts /tmp', 'mount --rbind / /mnt && umount -l /mnt/dev/pts && cd /mnt && set -- "/mnt$1"',
            'mount --bind / /mnt && set -- "/mnt$1"', 'mount --bind /dev /mnt && set -- "/mnt/pts/${1##*/}"',
            'mount --bind "/proc/$PPID/root/dev/pts" /dev/pts', 'mount --bind /proc/1/root/dev/pts /dev/pts']:
    subprocess.run(['unshare', '-Urm', 'sh', '-c', f'{way}; {own}', 'sh', outer], stderr=subprocess.DEVNULL)
for process in processes:
    subprocess.run(['nsenter', '-t', process, '-U', '-m', '--preserve-credentials', 'sh', '-c', own, 'sh', outer],
                   stderr=subprocess.DEVNULL)
open(done, 'w').close()
"#;

/// A terminal with a shell that runs `start`, which is given guard's words: the terminal as OUTER, folders and the terminal
/// itself as further descriptors, in the folder of terminals. Guard asks about curl, and then attacks begin.
struct Attacked {
    shown: Terminal,
    server: Server,
    pipe: PathBuf,
    done: PathBuf,
}

/// Guard, in this folder.
const PLAIN: &str = "\"$@\"";
/// Guard where no user namespaces are allowed.
const WITHOUT_USERNS: &str = "unshare --map-current-user --keep-caps sh -c 'echo 0 >/proc/sys/user/max_user_namespaces; \
                              exec setpriv --inh-caps=-all --ambient-caps=-all \"$@\"' sh \"$@\"";

impl Attacked {
    fn start(machine: &Machine, start: &str) -> Attacked {
        let server = Server::start();
        let folder = machine.scratch().path();
        let attack = machine.scratch().file("attack.py", ATTACK);
        let done = folder.join("done");
        let attacks = format!("python3 {} $OUTER {}", attack.display(), done.display());
        let (pipe, script) = waiting(machine, &format!("{attacks}; wait $curl; exit $?"));
        let script = format!("curl -s {} & curl=$!; {script}", server.url());
        let outer = format!(
            "exec 9<>/dev/tty 8</dev/pts 7</dev 6</; cd /dev/pts; export OUTER=$(tty)\n{start}\n\
             code=$?; until (echo ba''ck >$OUTER) 2>/dev/null; do :; done; exit $code"
        );
        let netloom = netloom_kit::Binary::find();
        let netloom = netloom.path().to_str().expect("a path");
        let words = ["-c", &outer, "sh", netloom, "guard", "--", "sh", "-c", &script];
        let shell = std::path::Path::new("/bin/sh");
        let shown = Terminal::start(shell, &words, &[("XDG_CONFIG_HOME", folder)]);
        shown.expect_times(KEYS, 1);
        Attacked { shown, server, pipe, done }
    }

    /// The process of guard that asks: the parent of its deputy.
    fn guard(&self) -> i32 {
        let all = processes();
        let mut guards = with_command_line(&self.server.url());
        guards.retain(|pid| all.get(pid).is_some_and(|process| process.comm == "netloom"));
        let deputy = guards.iter().find(|pid| guards.contains(&all[pid].parent));
        all[deputy.expect("guard and its deputy run")].parent
    }

    /// Guard was killed: others open the terminal again.
    fn back_after_a_kill(self) {
        self.shown.expect_times("back", 1);
        assert_eq!(self.shown.finish().code(), Some(137));
    }

    /// Attacks while a question is shown; who sees it says no.
    fn attacked(mut self) {
        go(&self.pipe);
        wait_until("the attacks are over", SOON, || self.done.exists().then_some(()));
        assert!(!self.shown.screen().contains("DRAWN"), "{}", self.shown.screen());
        assert_eq!(self.server.served(), 0);
        self.shown.type_text("n");
        // When guard has ended, others open the terminal again.
        self.shown.expect_times("back", 1);
        assert_eq!(self.shown.finish().code(), Some(7));
        assert_eq!(self.server.served(), 0);
    }
}

#[test]
fn nothing_is_drawn_over_a_question() {
    ordinary_only!("root opens any terminal");
    needs!("curl", "python3", "userns", "nsenter");
    let machine = machine!();
    Attacked::start(&machine, PLAIN).attacked();
    // Without guard there is something to see.
    let attack = machine.scratch().file("attack.py", ATTACK);
    let script = format!("exec python3 {} $(tty) /dev/null self", attack.display());
    let shown = Terminal::start(std::path::Path::new("/bin/sh"), &["-c", &script], &[]);
    shown.expect_times("DRAWN", 3);
    assert_eq!(shown.finish().code(), Some(0));
    machine.untouched();
}

/// A program has a terminal with a name, and makes others.
#[test]
fn programs_have_and_make_terminals() {
    needs!("python3");
    let machine = machine!();
    let script = "import os, pty; print('name', os.ttyname(0)); _, own = pty.openpty(); print('made', os.ttyname(own)); \
                  pty.spawn(['sh', '-c', 'test -t 0 && echo on $(tty) >/dev/tty'])";
    let shown = super::guard::terminal(&machine, &["guard", "--", "python3", "-c", script]);
    shown.expect_times("name /dev/pts/", 1);
    shown.expect_times("made /dev/pts/", 1);
    shown.expect_times("on /dev/pts/", 1);
    let screen = shown.screen();
    assert_eq!(shown.finish().code(), Some(0));
    // The first one of its own, where it has a user namespace.
    assert!(
        is_root() || !netloom_kit::userns_allowed() || screen.contains("name /dev/pts/0\r"),
        "{screen}"
    );
    machine.untouched();
}

#[test]
fn nothing_is_drawn_over_a_question_without_user_namespaces() {
    ordinary_only!("root opens any terminal");
    needs!("curl", "python3", "userns", "landlock-tcp", "setpriv");
    let machine = machine!();
    Attacked::start(&machine, WITHOUT_USERNS).attacked();
    machine.untouched();
}

#[test]
fn a_killed_guard_leaves_the_terminal_to_others() {
    ordinary_only!("root opens any terminal");
    needs!("curl", "python3", "userns", "landlock-tcp", "setpriv");
    let machine = machine!();
    let attacked = Attacked::start(&machine, WITHOUT_USERNS);
    kill(attacked.guard());
    attacked.back_after_a_kill();
    machine.untouched();
}

/// A program that has ended by itself leaves guard alone with the terminal: also then a kill gives it back.
#[test]
fn a_guard_killed_after_its_program_leaves_the_terminal_to_others() {
    ordinary_only!("root opens any terminal");
    needs!("curl", "python3", "userns", "landlock-tcp", "setpriv");
    let machine = machine!();
    let attacked = Attacked::start(&machine, WITHOUT_USERNS);
    let guard = attacked.guard();
    netloom_kit::stop(guard);
    let children =
        |parent| processes().into_values().filter(move |process| process.parent == parent);
    let deputy = children(guard).next().expect("guard has a deputy").pid;
    children(deputy).for_each(|program| kill(program.pid));
    wait_until("the deputy has ended", SOON, || gone(deputy).then_some(()));
    kill(guard);
    attacked.back_after_a_kill();
    machine.untouched();
}

/// What a folder that is open, or the current one, leads to is what its path leads to.
#[test]
fn no_folder_leads_past_what_is_sealed() {
    ordinary_only!("root may write anything");
    needs!("userns");
    let machine = machine!();
    machine.scratch().file("p.yaml", "default: deny\n");
    std::fs::create_dir(machine.scratch().path().join("netloom")).expect("make a folder");
    let folder = machine.scratch().path();
    let netloom = netloom_kit::Binary::find();
    let netloom = netloom.path().to_str().expect("a path");
    let tries = "for at in /proc/self/fd/8 /proc/$$/cwd .; do echo x >$at/p.yaml; echo x >$at/guard.yaml; done; \
                 test -d /proc/self/fd/8 && echo tri''ed";
    let script = "exec 8<.; exec \"$@\"";
    let words = [
        "--wait", "sh", "-c", script, "sh", netloom, "guard", "--policy", "p.yaml", "--frozen",
        "--",
    ];
    let run = Run::new("setsid").args(words).args(["sh", "-c", tries]).dir(folder);
    assert_eq!(run.finish().code(0).text(), "tried\n");
    // The folder of answers, and a terminal to ask on.
    let script = "cd netloom; exec 8<.; exec \"$@\"";
    let script = format!("cd {}; {script}", folder.display());
    let words = ["-c", &script, "sh", netloom, "guard", "--", "sh", "-c", tries];
    let shell = std::path::Path::new("/bin/sh");
    let shown = Terminal::start(shell, &words, &[("XDG_CONFIG_HOME", folder)]);
    shown.expect_times("tried", 1);
    assert_eq!(shown.finish().code(), Some(0));
    let policy = std::fs::read_to_string(folder.join("p.yaml")).expect("a policy");
    assert_eq!(policy, "default: deny\n");
    assert!(!folder.join("netloom/guard.yaml").exists());
    machine.untouched();
}

/// Each is answered by whom its question was shown, and nobody draws over another one's question.
#[test]
fn guards_on_one_terminal_ask_in_turn() {
    needs!("curl");
    let machine = machine!();
    let (one, two) = (Server::start(), Server::start());
    let folder = machine.scratch().path();
    let done = folder.join("done");
    let (pipe, script) = waiting(&machine, "printf DRA; echo WN");
    let second = format!("{script}; : >{}; curl -s {}; cat", done.display(), two.url());
    let netloom = netloom_kit::Binary::find();
    let guard = format!("{} guard --", netloom.path().display());
    let modes = ["before", "after"].map(|name| folder.join(name));
    let line = format!(
        "stty -a >{}; {guard} curl -s {} | {guard} sh -c '{second}'; stty -a >{}; echo en''ded",
        modes[0].display(),
        one.url(),
        modes[1].display()
    );
    let shell = std::path::Path::new("/bin/sh");
    let mut shown = Terminal::start(shell, &["-c", &line], &[("XDG_CONFIG_HOME", folder)]);
    shown.expect_times(KEYS, 1);
    go(&pipe);
    wait_until("the second program has written", SOON, || done.exists().then_some(()));
    assert!(!shown.screen().contains("DRAWN"), "{}", shown.screen());
    shown.type_text("y");
    wait_until("the first one is served", SOON, || (one.served() == 1).then_some(()));
    shown.expect_times("DRAWN", 1);
    shown.expect_times(KEYS, 2);
    assert!(shown.screen().contains(&format!("port {} by tcp", two.port)), "{}", shown.screen());
    shown.type_text("n");
    shown.expect_times("hello", 1);
    shown.expect_times("ended", 1);
    assert_eq!((one.served(), two.served()), (1, 0));
    assert_eq!(shown.finish().code(), Some(0));
    let modes = modes.map(|path| std::fs::read_to_string(path).expect("modes of the terminal"));
    assert_eq!(modes[0], modes[1]);
    machine.untouched();
}

/// Where one guard has the terminal for itself, another one says that it can ask nobody.
#[test]
fn a_guard_says_that_another_program_has_the_terminal() {
    ordinary_only!("root opens any terminal");
    needs!("curl", "userns", "landlock-tcp", "setpriv");
    let (machine, server) = (machine!(), Server::start());
    let folder = machine.scratch().path();
    let pipes = ["begun", "over"].map(|name| folder.join(name));
    Run::new("mkfifo").args(&pipes).ok();
    let [begun, over] = pipes.each_ref().map(|path| path.display());
    let line = format!(
        "\"$@\" sh -c 'echo >{begun}; read go <{over}' | {{ read go <{begun}; \"$@\" curl -s {}; echo code $?; echo >{over}; }}",
        server.url()
    );
    let netloom = netloom_kit::Binary::find();
    let netloom = netloom.path().to_str().expect("a path");
    let inner = format!("set -- sh -c {} sh {netloom} guard --; {WITHOUT_USERNS}", quoted(&line));
    let shell = std::path::Path::new("/bin/sh");
    let shown = Terminal::start(shell, &["-c", &inner], &[("XDG_CONFIG_HOME", folder)]);
    shown.expect_times("nobody is asked: another program has the terminal for itself", 1);
    shown.expect_times("another program has the terminal for itself:", 1);
    shown.expect_times("code 7", 1);
    assert_eq!(shown.finish().code(), Some(0));
    assert_eq!(server.served(), 0);
    machine.untouched();
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// What a program has begun to say to the terminal is over before the question.
#[test]
fn no_string_swallows_a_question() {
    needs!("curl");
    let (machine, server) = (machine!(), Server::start());
    let script = format!("printf 'begun\\033P'; curl -s {}", server.url());
    let mut shown = super::guard::terminal(&machine, &["guard", "--", "sh", "-c", &script]);
    shown.expect_times(KEYS, 1);
    let text = shown.screen();
    let question = text.split_once("begun\x1bP").expect("the program's output").1;
    assert!(question.starts_with("\x18\x1b\\"), "{question:?}");
    // Nor is it shown in colours that a program has set: those of letters, of what is behind them, and of the palette.
    let before = question.split_once("netloom guard").expect("a question").0;
    for colours in [
        "\x1b]104\x1b\\",
        "\x1b]110\x1b\\",
        "\x1b]111\x1b\\",
        "\x1b]R\x1b\\",
        "\x1b[?5l",
        "\x1b[0m",
    ] {
        assert!(before.contains(colours), "{colours:?}: {question:?}");
    }
    shown.type_text("n");
    assert_eq!(shown.finish().code(), Some(7));
    machine.untouched();
}

/// A question of which a part is not on the screen is not answered by `y`.
#[test]
fn a_question_that_has_no_room_is_not_answered() {
    let curl = needed!("curl");
    let (machine, server) = (machine!(), Server::start());
    let (pipe, script) = waiting(&machine, "exec \"$0\" -s \"$1\"");
    let path = machine.scratch().path().join("\u{1b}".repeat(150));
    std::fs::copy(curl, &path).expect("copy curl");
    let (path, url) = (path.to_str().expect("a path"), server.url());
    let args = ["guard", "--", "sh", "-c", &script, path, &url];
    let mut shown = super::guard::terminal(&machine, &args);
    shown.expect_times("ready", 1);
    shown.resize(80, 10);
    go(&pipe);
    // When it appears, and when its keys count.
    shown.expect_times("a question needs ", 2);
    shown.type_text("y");
    shown.resize(80, 24);
    shown.expect_times(KEYS, 1);
    assert_eq!(server.served(), 0);
    let text = shown.screen();
    let question = text.rsplit_once("netloom guard\r\n").expect("a question").1;
    assert!(question.matches("\\u{1b}").count() < 34, "{question}");
    assert!(question.contains("port "), "{question}");
    shown.type_text("n");
    assert_eq!(shown.finish().code(), Some(7));
    assert_eq!(server.served(), 0);
    machine.untouched();
}
