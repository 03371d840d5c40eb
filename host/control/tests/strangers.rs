//! Users who are nobody's business.

use std::os::unix::fs::PermissionsExt;

use netloom_control::{Client, Fault};
use netloom_kit::root_only;
use rustix::fs::Uid;

use super::toy::{Answer, BareToy, Request, Served, Toy, silent};

/// Runs `f` as another user.
fn as_nobody<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let run = || {
        let nobody = Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("become nobody");
        f()
    };
    std::thread::scope(|scope| scope.spawn(run).join().expect("no panic"))
}

#[test]
fn each_side_refuses_the_other_user_and_root_may_ask_anybody() {
    root_only!("a thread becomes another user");
    let toy = Served::start::<Toy>();
    let open = |path: &std::path::Path| {
        let everybody = |path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("permissions");
        };
        everybody(path, 0o666);
        everybody(path.parent().expect("a folder"), 0o755);
    };
    open(&toy.path());
    let path = toy.path();
    let refused = as_nobody(|| Client::<Toy>::open(&path).expect_err("it is root's"));
    assert!(matches!(refused, Fault::Stranger(0)), "{refused}");
    let socket = as_nobody(|| silent(&path));
    assert_eq!(netloom_sys::scm::receive(&socket, &mut [0; 8]).expect("closed").0, 0);
    let client = toy.client::<Toy>();
    assert_eq!(client.ask(&Request::Wake, &[]).expect("root's"), Answer::Done);
    toy.stopped(&client);
    // Root asks a process of another user; with `Trust::User` that takes no root.
    let (theirs, bare) = as_nobody(|| (Served::start::<Toy>(), Served::start::<BareToy>()));
    let client = theirs.client::<Toy>();
    assert_eq!(client.ask(&Request::Wake, &[]).expect("asked"), Answer::Done);
    theirs.stopped(&client);
    let refused = bare.client::<BareToy>().answer();
    assert!(matches!(refused, Err(Fault::Ended)), "{refused:?}");
    let path = bare.path();
    let stop =
        || Client::<BareToy>::open(&path).expect("open").expect("it").ask(&Request::Stop, &[]);
    as_nobody(stop).expect("stopped");
}
