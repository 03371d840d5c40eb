//! A slicer, a switch or a controller that ends at any moment leaves the others as they are.

use super::world::{Slicer, Switch, two, wait};

#[test]
fn without_its_slicer_a_switch_forwards_on_and_the_next_one_begins_anew() {
    let mut slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    red.add("in_port=1,actions=output:2").expect("within red");
    slicer.kill();
    assert!(red.is_closed());
    let mut frame = vec![2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1, 0x88, 0xb5];
    frame.resize(60, 0);
    assert_eq!((switch.entries(), switch.frame(1, &frame)), (1, vec![2]));
    slicer.run();
    slicer.ready();
    // Nobody knows whose the old entries were: they go, and each slice makes its own again.
    wait("the old entries are gone", || (switch.entries() == 0).then_some(()));
    let mut red = slicer.peer("red");
    assert_eq!(red.flows(), 0);
    red.add("in_port=1,actions=output:2").expect("within red");
    assert_eq!(switch.frame(1, &frame), [2]);
}

#[test]
fn without_its_switch_there_is_no_virtual_one() {
    let slicer = Slicer::start(&two(""));
    let switch = Switch::start(slicer.openflow());
    slicer.ready();
    let mut red = slicer.peer("red");
    red.barrier();
    drop(switch);
    assert!(red.is_closed());
    wait("its sockets are gone", || (!slicer.folder.path().join("red.s").exists()).then_some(()));
    let _switch = Switch::start(slicer.openflow());
    slicer.peer("red").barrier();
}

#[test]
fn it_ends_with_its_folder() {
    let slicer = Slicer::start(&two(""));
    let control = slicer.control();
    std::fs::remove_dir_all(slicer.folder.path()).expect("remove it");
    wait("it has ended", || control.show().is_err().then_some(()));
}
