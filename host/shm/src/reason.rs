//! Reasons for which a switch refuses a request.

/// The reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The versions differ.
    Version,
    /// Another port has the number or the name.
    Taken,
    /// The name is invalid.
    Name,
    /// No number is free.
    Full,
    /// This user is not permitted.
    Denied,
    /// A memory is invalid.
    Memory,
    /// There is no such port.
    NoPort,
    /// The token is unknown, or its port is still connected.
    Token,
    /// A message that the protocol does not allow here.
    Protocol,
    /// Something else.
    Other,
}
