//! Faults planted into the proof by tests, which must find them. Outside of tests there are none.

/// A step of the proof that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Outputs are not compared with the spaces of others.
    Others,
    /// What a rewrite makes is not compared with the slice's own space.
    Rewrite,
    /// Packets that go on to a table may have left the space.
    Boundary,
    /// Fields that an action may or may not change are taken as changed.
    Certain,
    /// A removed VLAN tag leaves the packet without any.
    Pop,
    /// Ports of others are outputs like own ones.
    Ports,
    /// Matches are not narrowed to the space.
    Narrow,
    /// Entries of later tables do not ask for the slice's tag.
    Tag,
    /// Groups are not proved.
    Groups,
    /// Action sets are not proved.
    Sets,
    /// Packets of controllers are not proved.
    PacketOuts,
    /// Packets for controllers go to all.
    PacketIns,
}

#[cfg(test)]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Fault>> = const { std::cell::Cell::new(None) };
}

/// Plants a fault in this thread, or takes it away.
#[cfg(test)]
pub(crate) fn plant(fault: Option<Fault>) {
    PLANTED.with(|planted| planted.set(fault));
}

/// Whether this fault is planted.
#[cfg(test)]
pub(crate) fn is(fault: Fault) -> bool {
    PLANTED.with(std::cell::Cell::get) == Some(fault)
}

/// No fault is planted.
#[cfg(not(test))]
pub(crate) const fn is(_: Fault) -> bool {
    false
}
