//! Roles of controllers (sections 6.3.6 and 7.3.9); 1.0 has none.

use crate::error::Reason;
use crate::wire::{Encoded, Reader, Result, Writer, fail};

numbers! {
    /// OFPCR_ROLE_*.
    Role: u32 {
        /// Keep the role; to ask for it.
        NoChange = 0,
        /// Like all others.
        Equal = 1,
        /// Full control; at most one.
        Master = 2,
        /// Reads only.
        Slave = 3,
    }
}

/// OFPT_ROLE_REQUEST and OFPT_ROLE_REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleMessage {
    /// The role.
    pub role: Role,
    /// The generation of the election.
    pub generation: u64,
}

impl RoleMessage {
    pub(crate) fn read(r: &mut Reader<'_>) -> Result<RoleMessage> {
        let role = Role::from(r.u32()?);
        if let Role::Other(_) = role {
            return fail(Reason::RoleRequestFailedBadRole, "role: unknown");
        }
        r.skip(4)?;
        Ok(RoleMessage { role, generation: r.u64()? })
    }

    pub(crate) fn write(self, w: &mut Writer) -> Encoded {
        w.u32(self.role.into());
        w.zeros(4);
        w.u64(self.generation);
        Ok(())
    }
}
