//! Files that appear complete or not at all.
//!
//! ```text
//! write .NAME.xxxxxx.part -> sync it -> rename it to NAME -> sync the folder
//! ```
//!
//! The temporary file is in the same folder, because a rename is atomic only within one file
//! system. A process killed in between leaves a `.part` file and the old `NAME`.

use crate::CheckpointError;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use tempfile::Builder;

/// Writes `bytes` to `path`, replacing what is there. After it returns, the bytes are on the disk.
///
/// # Errors
/// The folder does not exist, is full or may not be written; `path` is then as it was before.
pub fn atomic_write(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    replace(path, bytes)
        .map_err(|source| CheckpointError::Unwritable { path: path.to_owned(), source })
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let prefix = format!(".{name}.");
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    {
        // What a plain new file has; the umask still applies. Else only the owner could read it.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    // Elsewhere a folder cannot be opened as a file; the rename itself is then the last step.
    if cfg!(unix) {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::atomic_write;
    use crate::CheckpointError;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        atomic_write(&path, b"old").unwrap();
        atomic_write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("occupied");
        fs::create_dir(&occupied).unwrap();
        for path in [occupied.as_path(), &folder.path().join("no/a.bin"), Path::new("/")] {
            let error = atomic_write(path, b"x").unwrap_err();
            assert!(matches!(error, CheckpointError::Unwritable { .. }), "{error}");
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_as_open_as_any_other() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        atomic_write(&ours, b"").unwrap();
        fs::write(&plain, b"").unwrap();
        assert_eq!(mode(&ours), mode(&plain));
    }
}
