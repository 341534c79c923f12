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

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Error::Corrupt(text) => formatter.write_str(text),
            Error::TooLarge { offset, batch_bytes } => {
                write!(formatter, "the record at source offset {offset} alone is a batch of {batch_bytes} bytes")
            }
        }
    }
}

impl std::error::Error for Error {}
