"""Whether only this user can change a directory: what is in it is trusted only then."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from .errors import UsageError

_ROOT = 0
"""Root's files are trusted: it can do anything to this process anyway."""
_ACL = "system.posix_acl_access"


def check_only_ours(directory: Path, option: str) -> None:
    """UsageError, named by `option`, if the directory or something in it is another user's, is a link, or can be
    changed by others; nothing if it does not exist. OSError if it cannot be read.

    What is in a directory that others cannot enter may have any mode. The user's own group, which has no other member,
    may write.
    """
    try:
        top = os.stat(directory)
    except FileNotFoundError:
        return
    _check(directory, top, directory, option)
    others_enter = bool(top.st_mode & (stat.S_IXGRP | stat.S_IXOTH))
    for path, status in _inside(directory):
        if stat.S_ISLNK(status.st_mode):
            raise UsageError(
                f"{option} {directory}: {path} is a link, and what is in there is trusted; "
                "remove the link, or give another directory",
                code="link",
            )
        _check(path, status, directory, option, writers=others_enter)


def _inside(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """What a directory has, with all below; links are not followed, and what goes away meanwhile is left out."""
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        try:
            status = entry.stat(follow_symlinks=False)
            yield Path(entry.path), status
            if stat.S_ISDIR(status.st_mode):
                yield from _inside(Path(entry.path))
        except FileNotFoundError:
            continue


def _check(path: Path, status: os.stat_result, directory: Path, option: str, *, writers: bool = True) -> None:
    where = str(path) if path == directory else f"{directory}: {path}"
    if status.st_uid not in (os.geteuid(), _ROOT):
        raise UsageError(
            f"{option} {where} belongs to another user ({_name(status.st_uid)}), and what is in there is trusted; "
            "give a directory of yours",
            code="another_user",
        )
    if writers and _others_write(path, status):
        raise UsageError(
            f"{option} {where} can be changed by others (mode {stat.S_IMODE(status.st_mode):04o}), and what is in "
            f"there is trusted; run chmod -R go-w {directory}, or give another directory",
            code="writable_by_others",
        )


def _others_write(path: Path, status: os.stat_result) -> bool:
    if status.st_mode & stat.S_IWOTH:
        return True
    # With an access list the group's bits are what the list allows at most, to whomever it names.
    return bool(status.st_mode & stat.S_IWGRP) and (not _is_own_group(status.st_gid) or _has_access_list(path))


@cache
def _is_own_group(gid: int) -> bool:
    """Whether it is the group that many systems make for each user: of the same name, and without another member."""
    try:
        user = pwd.getpwuid(os.geteuid())
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    is_own = user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return is_own and all(other.pw_gid != gid or other.pw_uid == user.pw_uid for other in pwd.getpwall())


def _has_access_list(path: Path) -> bool:
    if not hasattr(os, "getxattr"):  # macOS keeps its lists beside the mode
        return False
    try:
        os.getxattr(path, _ACL)
    except OSError:  # it has none
        return False
    return True


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
