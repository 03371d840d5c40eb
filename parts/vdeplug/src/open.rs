//! Turns the arguments of `vde_open` into a port: names, descriptions, and error numbers.
//!
//! A port number in the name takes precedence over the one in the arguments, as in VDE. Group and mode apply
//! to a port's own socket, which netloom's ports do not have: the switch decides which process may join.

use std::ffi::c_int;

use netloom_shm::protocol::Reason;
use netloom_shm::{Error, JoinOptions, SwitchPort, name};
use rustix::io::Errno;

/// Arguments of `vde_open`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'a> {
    /// The part after `netloom://`.
    pub(crate) name: &'a str,
    /// The program's description of itself.
    pub(crate) description: &'a str,
    /// The port number in the arguments, 0 for any.
    pub(crate) port: c_int,
}

/// Joins the switch.
pub(crate) fn join(wish: &Wish<'_>) -> Result<SwitchPort, Errno> {
    let address = name::resolve(wish.name).map_err(|error| number(&error))?;
    let chosen = address.name.is_some();
    let wanted = address.name.clone();
    let wanted = wanted.unwrap_or_else(|| name::port_name(wish.description));
    let mut options = JoinOptions::at(&address, &wanted);
    options.number = match address.number {
        Some(number) => u16::from(number),
        None => u8::try_from(wish.port).map_err(|_| Errno::INVAL)?.into(),
    };
    // VDE frames have no header that could describe partial checksums.
    options.super_frames = false;
    options.checksums = false;
    // Programs that watch the control descriptor end with the switch; for others the port rejoins.
    options.reconnect = true;
    match SwitchPort::join(&options) {
        Err(Error::Refused { reason: Reason::Taken, .. }) if !chosen => {
            // Another port has the name: two cards of one QEMU, or equal pids in two nodes. If instead the
            // number is taken, this attempt fails the same way.
            options.name = name::unlike_others(&wanted)?;
            SwitchPort::join(&options)
        }
        other => other,
    }
    .map_err(|error| number(&error))
}

/// The error number. Never EPROTONOSUPPORT: libvdeplug would try another plug-in.
pub(crate) fn number(error: &Error) -> Errno {
    match error {
        Error::Refused { reason, .. } => match reason {
            Reason::Taken | Reason::Token => Errno::BUSY,
            Reason::Full => Errno::NOSPC,
            Reason::Denied => Errno::PERM,
            Reason::Name => Errno::INVAL,
            Reason::Version | Reason::Protocol | Reason::Memory => Errno::PROTO,
            _ => Errno::IO,
        },
        Error::Name { .. } => Errno::INVAL,
        Error::Folder { .. } | Error::Stranger { .. } => Errno::ACCESS,
        Error::Silent { .. } => Errno::TIMEDOUT,
        Error::Memory { .. } | Error::Message { .. } => Errno::PROTO,
        other => match other.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::PROTONOSUPPORT) => Errno::PROTO,
            Some(error) => error,
            None => Errno::IO,
        },
    }
}

#[cfg(test)]
mod tests {
    use netloom_sys::Failure;

    use super::*;

    #[test]
    fn wrong_names_and_ports_are_invalid() {
        let wrong = [("", 0), ("a/b", 0), ("s[256]", 0), ("/no/such[x]", 0), ("/no/such", -1)];
        for (name, port) in wrong {
            let wish = Wish { name, description: "test", port };
            assert_eq!(join(&wish).err(), Some(Errno::INVAL), "{wish:?}");
        }
        let wish = Wish { name: "/no/such", description: "test", port: 256 };
        assert_eq!(join(&wish).err(), Some(Errno::INVAL));
        let wish = Wish { name: "/no/such", description: "test", port: 255 };
        assert_eq!(join(&wish).err(), Some(Errno::NOENT));
    }

    #[test]
    fn refusals_have_numbers_and_none_sends_libvdeplug_elsewhere() {
        let refused =
            |reason| number(&Error::Refused { switch: "/s".into(), reason, text: String::new() });
        assert_eq!(refused(Reason::Taken), Errno::BUSY);
        assert_eq!(refused(Reason::Denied), Errno::PERM);
        assert_eq!(refused(Reason::Version), Errno::PROTO);
        assert_eq!(
            number(&Failure::new("switch", "connect", Errno::CONNREFUSED).into()),
            Errno::CONNREFUSED
        );
        assert_eq!(
            number(&Failure::new("switch", "connect", Errno::PROTONOSUPPORT).into()),
            Errno::PROTO
        );
    }
}
