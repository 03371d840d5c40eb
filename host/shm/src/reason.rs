//! Why a switch refuses something.

/// Why something was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The versions differ.
    Version,
    /// The number or the name is another port's.
    Taken,
    /// The name cannot be one.
    Name,
    /// No number is free.
    Full,
    /// Not allowed to this user.
    Denied,
    /// A memory is not as it must be.
    Memory,
    /// There is no such port.
    NoPort,
    /// The token is not known, or it is of a port that is still there.
    Token,
    /// A message that the protocol does not allow here.
    Protocol,
    /// Something else.
    Other,
}
