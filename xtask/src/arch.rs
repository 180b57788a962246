//! The kinds of machines that ramdisks are built for.

/// One kind of machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arch {
    /// 64-bit PCs.
    X86_64,
    /// 64-bit ARM.
    Aarch64,
}

impl Arch {
    /// This machine's.
    pub(crate) fn host() -> Self {
        if cfg!(target_arch = "aarch64") {
            Self::Aarch64
        } else {
            Self::X86_64
        }
    }

    /// By the name on the command line.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::X86_64, Self::Aarch64]
            .into_iter()
            .find(|arch| arch.name() == text)
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// The distribution's name for it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// The agent's target.
    pub(crate) fn musl(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-musl",
            Self::Aarch64 => "aarch64-unknown-linux-musl",
        }
    }

    /// The UEFI stub in the package `systemd-boot-efi`.
    pub(crate) fn stub(self) -> &'static str {
        match self {
            Self::X86_64 => "linuxx64.efi.stub",
            Self::Aarch64 => "linuxaa64.efi.stub",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arch;

    #[test]
    fn names_lead_back() {
        for arch in [Arch::X86_64, Arch::Aarch64] {
            assert_eq!(Arch::parse(arch.name()), Some(arch));
        }
        assert_eq!(Arch::parse("amd64"), None);
    }
}
