"""A static program at fixed addresses, as a file: its segments and sections, and how three tables in it are replaced.

Source: System V ABI, chapters 4 and 5; its supplement for x86-64."""

import struct
import sys
from collections import namedtuple

PAGE = 0x1000
LOAD, PHDR, EH_FRAME = 1, 6, 0x6474E550
SEGMENT, SECTION = "<IIQQQQQQ", "<IIQQQQIIQQ"
LISTS, HEADER, FRAMES = ".gcc_except_table", ".eh_frame_hdr", ".eh_frame"

Segment = namedtuple("Segment", "kind flags offset address physical stored size align")
Section = namedtuple("Section", "name kind flags address offset size link info align entry")


def expect(condition, what):
    if not condition:
        sys.exit(f"unwind.py: {what}")


class Program:
    """The bytes of a program, its segments, and its sections by their names."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        of_this_kind = self.data[:6] == b"\x7fELF\2\1" and struct.unpack_from("<HH", self.data, 16) == (2, 62)
        expect(of_this_kind, f"{path} is no program for x86-64 at fixed addresses")
        self.segment_table, self.section_table = struct.unpack_from("<QQ", self.data, 32)
        segments, _, sections, names = struct.unpack_from("<HHHH", self.data, 56)
        self.segments = [Segment(*struct.unpack_from(SEGMENT, self.data, self.segment_table + 56 * at)) for at in range(segments)]
        rows = [Section(*struct.unpack_from(SECTION, self.data, self.section_table + 64 * at)) for at in range(sections)]
        self.sections = {}
        for row in rows:
            at = rows[names].offset + row.name
            self.sections[self.data[at:self.data.index(b"\0", at)].decode()] = row
        expect(len(self.sections) == sections, f"{path} has two sections of one name")
        for name in (LISTS, HEADER, FRAMES):
            expect(name in self.sections, f"{path} has no section {name}")

    def replaced(self, body, places):
        """The bytes of the program with other tables: `body` where the first one began, and in it address and size of each. The lists of
        clean-ups were first in their segment and are last now, so the segment becomes two; one that names the table of segments alone,
        which only a program at other addresses needs, makes room."""
        lists, header = self.sections[LISTS], self.sections[HEADER]
        whole = next(each for each in self.segments if each.kind == LOAD and each.address <= lists.address < each.address + each.size)
        end = whole.address + whole.size
        inside = sorted((each for each in self.sections.values() if whole.address <= each.address < end), key=lambda each: each.address)
        after = next(each for each in inside if each.address > lists.address)
        expect(inside[-2:] == [header, self.sections[FRAMES]], "the tables are not the last ones of their segment")
        expect(header.address + len(body) <= end, "the tables became longer")
        expect(any(each.kind == PHDR for each in self.segments), "no segment makes room for another one")
        following = min(each.offset for each in self.segments if each.kind == LOAD and each.offset > whole.offset)
        out = bytearray(self.data[:lists.offset])
        out += bytes((after.address - len(out)) % PAGE)
        second = len(out)
        out += self.data[after.offset:header.offset] + body
        out += bytes((following - len(out)) % PAGE)
        moved = following - len(out)
        out += self.data[following:]

        def at(address):
            return second + address - after.address

        one = whole._replace(stored=lists.address - whole.address, size=lists.address - whole.address)
        length = header.address + len(body) - after.address
        other = whole._replace(offset=second, address=after.address, physical=after.address, stored=length, size=length)
        self.write_segments(out, whole, [one, other], places, at, lambda each: moved if each.offset >= following else 0)
        struct.pack_into("<Q", out, 40, self.section_table - moved)
        for number, (name, row) in enumerate(self.sections.items()):
            if name in places:
                row = row._replace(address=places[name][0], offset=at(places[name][0]), size=places[name][1])
            elif row.offset >= following:
                row = row._replace(offset=row.offset - moved)
            elif row.offset >= after.offset:
                row = row._replace(offset=at(row.address))
            struct.pack_into(SECTION, out, self.section_table - moved + 64 * number, *row)
        return bytes(out)

    def write_segments(self, out, whole, parts, places, at, moved):
        """The table of segments with these parts in place of a whole one."""
        table = []
        for each in self.segments:
            if each is whole:
                table += parts
            elif each.kind == EH_FRAME:
                address, size = places[HEADER]
                table.append(each._replace(offset=at(address), address=address, physical=address, stored=size, size=size))
            elif each.kind != PHDR:
                table.append(each._replace(offset=each.offset - moved(each)))
        for number, each in enumerate(table):
            struct.pack_into(SEGMENT, out, self.segment_table + 56 * number, *each)
