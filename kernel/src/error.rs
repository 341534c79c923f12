//! Why a batch can't be used.

/// What is wrong with bytes that were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// They are no batch, or it contradicts itself.
    Corrupt(String),
    /// One record alone is over the largest batch.
    TooLarge {
        /// Its source offset.
        offset: i64,
        /// Of the batch that holds it alone.
        batch_bytes: usize,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of bytes that are no batch.
pub fn corrupt<T>(text: impl Into<String>) -> Result<T> {
    Err(Error::Corrupt(text.into()))
}
