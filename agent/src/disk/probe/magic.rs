//! Where each kind of content puts its signature.

/// What a signature says the content is. Names are those that blkid uses
/// where it has one.
pub type Kind = &'static str;

/// Where a signature starts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// From the start, in bytes.
    Start(u64),
    /// From the end, in bytes.
    End(u64),
    /// The logical sector with this number.
    Sector(u64),
    /// Logical sectors from the end; 1 is the last.
    LastSector(u64),
}

/// One signature at one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Magic {
    pub(super) kind: Kind,
    pub(super) place: Place,
    pub(super) bytes: &'static [u8],
}

const fn start(kind: Kind, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic {
        kind,
        place: Place::Start(offset),
        bytes,
    }
}

const fn end(kind: Kind, offset: u64, bytes: &'static [u8]) -> Magic {
    Magic {
        kind,
        place: Place::End(offset),
        bytes,
    }
}

const fn sector(kind: Kind, place: Place, bytes: &'static [u8]) -> Magic {
    Magic { kind, place, bytes }
}

const SWAP2: &[u8] = b"SWAPSPACE2";
const SWAP1: &[u8] = b"SWAP-SPACE";
const LUKS2_SECOND: &[u8] = b"SKUL\xba\xbe";
const LVM2: &[u8] = b"LABELONE";
const GPT: &[u8] = b"EFI PART";
const BTRFS: &[u8] = b"_BHRfS_M";
const DDF: &[u8] = b"\xde\x11\xde\x11";
const ISW: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const MD1: &[u8] = b"\xfc\x4e\x2b\xa9\x01\0\0\0";

/// Signatures at fixed places. Those that need arithmetic (md 0.9 and 1.0)
/// or a search (ZFS) are in code.
pub(super) const MAGICS: &[Magic] = &[
    start("ext", 0x438, b"\x53\xef"),
    start("xfs", 0, b"XFSB"),
    start("btrfs", 0x1_0040, BTRFS),
    // Mirrors of the superblock at 64 MiB and 256 GiB.
    start("btrfs", (64 << 20) + 0x40, BTRFS),
    start("btrfs", (256 << 30) + 0x40, BTRFS),
    start("vfat", 0x52, b"FAT32   "),
    start("vfat", 0x36, b"FAT16   "),
    start("vfat", 0x36, b"FAT12   "),
    start("exfat", 3, b"EXFAT   "),
    start("ntfs", 3, b"NTFS    "),
    start("f2fs", 0x400, b"\x10\x20\xf5\xf2"),
    start("squashfs", 0, b"hsqs"),
    start("cramfs", 0, b"\x45\x3d\xcd\x28"),
    start("romfs", 0, b"-rom1fs-"),
    start("erofs", 0x400, b"\xe2\xe1\xf5\xe0"),
    start("jfs", 0x8000, b"JFS1"),
    // Versions 3.5, 3.6 and with a journal elsewhere; the oldest at 8 KiB.
    start("reiserfs", 0x1_0034, b"ReIsErFs"),
    start("reiserfs", 0x1_0034, b"ReIsEr2Fs"),
    start("reiserfs", 0x1_0034, b"ReIsEr3Fs"),
    start("reiserfs", 0x2034, b"ReIsErFs"),
    start("hfsplus", 0x400, b"H+\0\x04"),
    start("hfsplus", 0x400, b"HX\0\x05"),
    start("apfs", 0x20, b"NXSB"),
    // Blocks of 512 bytes to 4 KiB: the superblock is block 2.
    start("ocfs2", 0x400, b"OCFSV2"),
    start("ocfs2", 0x800, b"OCFSV2"),
    start("ocfs2", 0x1000, b"OCFSV2"),
    start("ocfs2", 0x2000, b"OCFSV2"),
    start("oracleasm", 0x20, b"ORCLDISK"),
    // ECMA-167 §2/9: the volume recognition sequence.
    start("udf", 0x8001, b"BEA01"),
    start("udf", 0x8801, b"NSR02"),
    start("udf", 0x8801, b"NSR03"),
    start("BitLocker", 3, b"-FVE-FS-"),
    start("stratis", 0x204, b"!Stra0tis\x86\xff\x02^\x41rh"),
    start("vdo", 0, b"dmvdo001"),
    start("iso9660", 0x8001, b"CD001"),
    start(
        "bcache",
        0x1018,
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    start(
        "bcachefs",
        0x1018,
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    start("ceph_bluestore", 0, b"bluestore block device"),
    // The swap signature ends its page, and pages have several sizes.
    start("swap", 0xff6, SWAP2),
    start("swap", 0x1ff6, SWAP2),
    start("swap", 0x3ff6, SWAP2),
    start("swap", 0x7ff6, SWAP2),
    start("swap", 0xfff6, SWAP2),
    start("swap", 0xff6, SWAP1),
    // A machine that sleeps has its memory there.
    start("swsuspend", 0xff6, b"S1SUSPEND"),
    start("swsuspend", 0xff6, b"S2SUSPEND"),
    start("swsuspend", 0xff6, b"ULSUSPEND"),
    start("swsuspend", 0xff6, b"LINHIB0001"),
    start("crypto_LUKS", 0, b"LUKS\xba\xbe"),
    // LUKS2 on-disk format §2.1: places of the second header.
    start("crypto_LUKS", 0x4000, LUKS2_SECOND),
    start("crypto_LUKS", 0x8000, LUKS2_SECOND),
    start("crypto_LUKS", 0x1_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x2_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x4_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x8_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x10_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x20_0000, LUKS2_SECOND),
    start("crypto_LUKS", 0x40_0000, LUKS2_SECOND),
    start("LVM2_member", 0, LVM2),
    start("LVM2_member", 0x200, LVM2),
    start("LVM2_member", 0x400, LVM2),
    start("LVM2_member", 0x600, LVM2),
    // md 1.1 and 1.2; the major version keeps chance matches away.
    start("linux_raid_member", 0, MD1),
    start("linux_raid_member", 0x1000, MD1),
    // DDF's anchor is the last block, on some controllers 128 KiB before.
    end("ddf_raid_member", 0x200, DDF),
    end("ddf_raid_member", 0x1000, DDF),
    end("ddf_raid_member", 0x2_0200, DDF),
    end("isw_raid_member", 0x400, ISW),
    end("isw_raid_member", 0x2000, ISW),
    start("gfs2", 0x1_0000, b"\x01\x16\x19\x70\0\0\0\x01"),
    start("VMFS", 0x20_0000, b"\x5e\xf1\xab\x2f"),
    start("VMFS_volume_member", 0x10_0000, b"\x0d\xd0\x01\xc0"),
    sector("gpt", Place::Sector(1), GPT),
    sector("gpt", Place::LastSector(1), GPT),
    // Tables made for the other sector size.
    start("gpt", 0x200, GPT),
    start("gpt", 0x1000, GPT),
    end("gpt", 0x200, GPT),
    end("gpt", 0x1000, GPT),
];
