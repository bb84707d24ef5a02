# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the WordPiece tokenizer, from the fast BertTokenizer of transformers.

    build-oracle/venv/bin/python tests/oracle/tokenizer.py      writes tests/fixtures/tokenizer/

strings.txt: a comment line with the versions, then one case a line, fields separated by tabs:
    options     l: lower case, s: strip accents, c: set CJK ideographs apart; then the limit of tokens (0: none),
                then p when padded to that limit; "lsc0" is the plain call
    real        tokens that are not padding
    invalid     ill-formed UTF-8 sequences in the text
    ids         separated by spaces
    text        as it is, with backslash, control characters, line separators and bytes that are not UTF-8 as \\xNN
unicode.txt: what becomes of every code point. FIRST[-LAST] TAB the words of "a", the code point, "b", separated by
    spaces; @ stands for the code point itself. Code points that are not listed stay as they are inside the word.
    The Hangul syllables are one line with the SHA-256 of their lines, to keep the file small.
The strings are written for this project or drawn at random with a fixed seed.
"""
import hashlib
import os
import random
import sys
import unicodedata

os.environ["HF_HUB_OFFLINE"] = "1"
import tokenizers
import transformers
from transformers import BertTokenizer

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(TOP, "third_party/models/minilm")
OUT = os.path.join(TOP, "tests/fixtures/tokenizer")
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]

BY_HAND = r"""
Hello, world!
The quick-witted fox didn't jump; it measured 3.14 metres (±0.5 mm) and went home.
don't can't won't it's I'm you're they've we'd O'Neil rock'n'roll
e-mail: someone@example.org, see https://www.example.org/path?q=1&r=%20#frag or ftp://host:21/~me
C++ C# F# .NET node.js x86_64 snake_case camelCase kebab-case SCREAMING_CASE
1234567890 1,234.56 -7 +8 1e-9 0xDEADBEEF 50% $19.99 €20 £30 ¥400 ₹500 ½ ¾ ² ³ ① Ⅳ
(parentheses) [brackets] {braces} <angles> «guillemets» “double” ‘single’ „low“ ‹single›
ellipsis… em—dash en–dash figure‒dash minus−sign hyphen‐hyphen nonbreaking‑hyphen soft­hyphen
!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~
!!! ??? ... --- ___ === +++ *** ### $$$ %%% ^^^ &&& @@@ ~~~ ``` |||
a.b,c;d:e!f?g(h)i[j]k{l}m<n>o"p'q/r\s|t-u_v+w=x*y&z^a%b$c#d@e~f`g
Äpfel Öl Übermut Straße groß GROSS STRASSE ẞ Maß ſtraße
Crème brûlée, naïve façade, déjà vu, coöperate, piñata, Ångström, Škoda, Łódź, żółć, Đorđe
Crème brûlée, naïve façade, Ångström, Škoda
Vietnamese: Tiếng Việt có nhiều dấu thanh; phở, Nguyễn, đường, ừ, ẵ, ỡ
İstanbul ISTANBUL ıssız Iğdır İİİ iİıI
ǅ Ǆ ǆ ǈ Ǉ ǉ ﬁ ﬂ ﬀ ﬃ ﬄ ﬅ Ĳ ĳ Œ œ Æ æ Ø ø Þ þ Ð ð Ŋ ŋ
Καλημέρα κόσμε, ΟΔΥΣΣΕΥΣ, Ὀδυσσεύς, ΣΊΣΥΦΟΣ, ᾳ ᾼ ῥ Ῥ ΐ ΰ Ω Ω µ μ ϐ β
Привет, мир! ЁЛКА ёлка Йод йод ЇЖАК їжак Ґанок Љубав Ђорђе Ѐ ѝ
Съешь ещё этих мягких булок, да выпей чаю
שָׁלוֹם עוֹלָם, שלום עולם; בְּרֵאשִׁית ײַ אַ שׁ
مرحبا بالعالم، كيف حالك؟ مُحَمَّد اللّٰه آ أ إ ؤ ئ ة ى ١٢٣٤٥ ۱۲۳
نمستے दुनिया नमस्ते हिन्दी क़ ख़ ग़ ड़ ढ़ कि की कु कू के कै को कौ क् कं कः श्री १२३।
বাংলা ভাষা ো ৌ ড় ঢ় য় தமிழ் மொழி ொ ோ ௌ తెలుగు ಕನ್ನಡ മലയാളം ਪੰਜਾਬੀ ગુજરાતી ଓଡ଼ିଆ සිංහල
สวัสดีชาวโลก ภาษาไทย กำ น้ำ ๑๒๓ ສະບາຍດີ ໄທ ຳ မြန်မာဘာသာ ភាសាខ្មែរ བོད་སྐད་ ཀྵ ྲྀ
你好,世界! 我爱自然语言处理。繁體中文測試 龍龜 豈更車 𠀀𪛖 㐀 〇 々 〆 中文English混合123
こんにちは世界 カタカナ ガギグゲゴ パピプペポ がぎぐげご ぱぴぷぺぽ ヴ ゔ ー ・ 「引用」『二重』、。
ガギグゲゴ がぎぐ ﾊﾟｶﾞ ｱｲｳ ㌔ ㍿ ㈱
안녕하세요 세계 한국어 각 갂 힣 ᄀ ᆨ ᅡ ㄱㄴㄷ ㅏㅑ 가나다
Ａｂｃ１２３！＂＃（）［］｛｝ ＡＢＣ　ｆｕｌｌ　ｗｉｄｔｈ ￥￦
😀😃 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 1️⃣ ☎️ ❤️ ⌚ 🤷🏻‍♀️ 🫠 🧑‍🚀
математика ∑ ∫ √ ∞ ≤ ≥ ≠ ≈ ± × ÷ ∂ ∇ ∈ ∉ ⊂ ∪ ∩ ∀ ∃ ¬ ∧ ∨ → ⇒ ⇔ ℝ ℕ ℤ ℂ 𝔸𝒷𝕔 𝟏𝟐𝟑 α β γ
Arrows ← ↑ → ↓ ↔ boxes ─│┌┐└┘ blocks █▓▒░ stars ★☆ cards ♠♥♦♣ music ♩♪♫ chess ♔♕ check ✓✗ braille ⠓⠑⠇⠇⠕
©2024 ® ™ § ¶ † ‡ • ‣ ◦ ‰ ‱ ′ ″ ‴ ※ ‼ ⁇ ⁈ № ℃ ℉ Å K Ω ª º
ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz
supercalifragilisticexpialidocious antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis
deoxyribonucleic acid, electroencephalography, immunofluorescence, otorhinolaryngologist, phosphofructokinase
Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogoch Donaudampfschifffahrtsgesellschaftskapitän
teh quikc brwon fxo jmups ovre teh lzay dgo
[SEP] [CLS] [MASK] [UNK] [PAD]
a[SEP]b[CLS]c[MASK]d[UNK]e[PAD]f
[sep] [Cls] [ MASK ] [MASK [[MASK]] [MASKED] [MAS K] [SEP][SEP] [[SEP] [SEP]]
The capital of France is [MASK].The capital of Italy is[MASK]!
[unused0] [unused1] [unused99] [PAD ] PAD] [UNK [C LS]
##ing ##s # ## ### a##b a ##b
zero​width‌non‍joiner⁠word﻿bom
﻿Byte order mark in front
left‎to‏right ‪embed‬ ‮override‬ ⁦isolate⁩
tabs	and  double   spaces    here
nbsp here narrow space thin space hair en em ideographic　space ogham mathematical medium
line separator paragraph separator
Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!
ạ̇ ạ̇ ḍ̇ ḍ̇ q̣̇ q̣̇ Å̦ ệ ệ
〮〯 𝅥〮 𝅘𝅥𝅮 𝆺𝅥 가〮나〯
﷽ ﷲ ﷺ ﻻ ﻼ ﺎ ﹰ ﹱ
ꓐꓑ ᏣᎳᎩ Ꭰ ꭰ ᏸ ᲀ Ა ა ა Ⴀ ⴀ Ⰰⰰ 𐐀𐐨 𐓀 𐲀𐳀 𑢠𑣀 𞤀𞤢 Ꞌ Ʞ ꭓ Ɥ ꞟ ᚠᚢᚦ ᛫ ሰላም ። ܫܠܡܐ ߒߞߏ ꯃꯤꯇꯩ ᠮᠣᠩᠭᠣᠯ ᠎ᠠ
"""

BY_HAND_ESCAPED = [
    "", " ", "\t", "\n", "\r\n", "   \t\n  ", "\0", "a\0b", "\x01\x02\x03", "a\x7fb", "a\x80\x9fb", "a\x85b", "a\xa0b", "a\xadb",
    "a\x0bb\x0cc", "a\x1cb\x1dc\x1ed\x1fe", "line one\nline two\r\nline three\rline four", "a\u180eb", "a\u200bb\u200cc\u200dd",
    "a\u2028b\u2029c", "a\u3000b", "a\ufeffb", "\ufeffabc", "a\ufffdb", "\ufffd", "a\ufffe\uffffb", "a\U0001ffffb", "a\ue000b\U000f0000c\U0010fffdd",
    "a\U000e0001b\U000e0041c", "e\u0301", "\u0301", "\u0301\u0300", " \u0301 ", "a \u0301b", "E\u0301\u0302\u0303", "\u0344", "a\u0344",
    "\u0130", "I\u0307", "i\u0307", "\u0130\u0130\u0130", "\u1e9e", "\u03a3", "\u039f\u03a3", "\u039f\u03a3 ", "\u03c2",
    "\u1100\u1161\u11a8", "\uac01", "\uac00\u11a8", "\ud7a3", "\u0958", "\u0915\u093c", "\u0f73", "\u0f71\u0f72", "\u1fef", "\u037e", "\u0387",
    "\u2126\u212a\u212b", "\u2000\u2001", "\u302e\u302f", "a\u302e\U0001d165b", "a\U0001d165\u302eb", "a\u302e\u0901\U0001d165b",
    "a\u302e\u0301\U0001d165b", "a\u1b44\u302e\U0001d165\u1baab", "\U0001d15e\U0001d165", "\U0001d1c0", "\U0001d160", "\u0b94\u0bca", "\u1112\u1161\u11ab\u1100\u1173\u11af",
    "\u2b820", "\U0002b820", "\U0002b91f\U0002b920", "\U0002ceaf\U0002ceb0", "\U0002f800", "\uf900", "\ufa0e", "\u9fff\ua000", "\u4dbf\u4dc0", "\U00030000",
    "\u166d", "\U000111c9", "\u1734", "\u1885\u1886", "\ua9bd", "\u061d", "\u2e43", "\u2e52", "\u10fb", "\u1b7d", "\u07fd", "\u0890", "\u08e2", "\u110bd", "\U000110cd",
    "\U0001e900\U0001e922", "\u1c89", "\ua7cb", "\U00010d50", "\U00016ea0", "\u10d0\u1c90", "\u13a0\uab70", "\u13f0\u13f8",
    "a" * 99, "a" * 100, "a" * 101, "a" * 300, "the" * 33, "the" * 33 + "x", "the" * 34, ("e\u0301" * 100), ("e\u0301" * 101), "\u00e9" * 100, "\u00e9" * 101,
    "\uac01" * 33, "\uac01" * 34, "\u0438" * 100, "\u0438" * 101, "x" + "\u0301" * 500 + "y", "x" + "\u302e" * 60 + "\U0001d165" * 60, "\u302e" * 50 + "\U0001d165" * 49,
    "\u200b".join("word"), "\u00ad".join("hyphenation"), "\u0301".join("accents everywhere"), "\u4e2d".join("abc"), "a" * 100 + "." + "b" * 101 + " c",
    "[MASK]" * 20, "[SEP" + "]" * 3, "\u0301[MASK]\u0301", "a[MASK]\u0301b", "\U0001d165[SEP]\u302e", "[MA\u0301SK]", "[\u200bMASK]", "\uff3bMASK\uff3d", "[PAD][PAD] x",
]  # fmt: skip

BAD_UTF8 = [
    b"\xff", b"a\xffb", b"\x80", b"a\x80\x80b", b"\xc3", b"a\xc3 b", b"caf\xc3\xa9 \xc3", b"\xc0\xaf", b"\xc1\x81", b"\xe0\x80\xaf", b"\xe0\xa0",
    b"\xe2\x82", b"\xe2\x82 \xac", b"a\xe2\x82\xacb\xe2\x82", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80", b"\xed\x9f\xbf", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\xf0\x9f\x98",
    b"\xf0\x80\x80\x80", b"\xf0\x28\x8c\x28", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe\xfe\xff\xff", b"ok \xe4\xb8 ok \xe4\xb8\xad ok",
    b"[MASK\xff]", b"\xe2[MASK]\xf0[SEP]", b"\xc3\xc3\xa9", b"wor\xffd wo\xf0\x9frd", bytes(range(128, 256)), bytes(range(256)),
]  # fmt: skip

ALPHABETS = {
    "latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "accents": "áàâäãåāăąçćčďđéèêëēęěğíìîïıłñńňóòôöõøőřśšşťúùûüůűýžźżÁÀÂÄÃÅĆČÉÈÊËÍÎÏÑÓÔÖØŘŚŠÚÛÜÝŽ",
    "vietnamese": "ạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹđĐƠƯơư",
    "greek": "".join(map(chr, [*range(0x386, 0x3CF), *range(0x1F00, 0x1F16), *range(0x1F80, 0x1FB5)])),
    "cyrillic": "".join(map(chr, range(0x400, 0x530))),
    "armenian_georgian": "".join(map(chr, [*range(0x531, 0x557), *range(0x561, 0x588), *range(0x10A0, 0x10C6), *range(0x10D0, 0x10FC)])),
    "hebrew": "".join(map(chr, [*range(0x5D0, 0x5EB), *range(0x5B0, 0x5C8), *range(0xFB1D, 0xFB37)])),
    "arabic": "".join(map(chr, [*range(0x60C, 0x670), *range(0x671, 0x6D4), *range(0x660, 0x66A)])),
    "devanagari": "".join(map(chr, range(0x900, 0x980))),
    "indic": "".join(map(chr, range(0x980, 0xE00))),
    "thai_lao": "".join(map(chr, [*range(0xE01, 0xE3B), *range(0xE40, 0xE5C), *range(0xE81, 0xEDF)])),
    "tibetan_burmese": "".join(map(chr, range(0xF00, 0x10A0))),
    "hangul": "".join(map(chr, [*range(0xAC00, 0xD7A4, 37), *range(0x1100, 0x1113), *range(0x1161, 0x1176)])),
    "han": "".join(map(chr, [*range(0x4E00, 0x9FFF, 23), *range(0x3400, 0x4DBF, 301), *range(0x20000, 0x2CEB0, 1009), *range(0xF900, 0xFAFF, 5)])),
    "kana": "".join(map(chr, [*range(0x3041, 0x3100), 0x3099, 0x309A, *range(0xFF66, 0xFFA0)])),
    "digits": "0123456789" * 3 + "٠١٢٣٤٥٦٧٨٩०१२३४५６７８９²³¼½Ⅷⅸ①②",
    "punctuation": "".join(chr(c) for c in range(0x3100) if unicodedata.category(chr(c))[0] == "P"),
    "symbols": "".join(chr(c) for c in range(0x3100) if unicodedata.category(chr(c))[0] == "S"),
    "marks": "".join(chr(c) for c in range(0x20000) if unicodedata.category(chr(c))[0] == "M"),
    "combining": "".join(chr(c) for c in range(0x20000) if unicodedata.combining(chr(c)) and unicodedata.category(chr(c)) == "Mc"),
    "spaces": " " * 12 + "\t\n\r\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
    "format": "\xad\u200b\u200c\u200d\u200e\u2060\ufeff\u061c\u180e\ufff9\U000e0020\x00\x1b\x7f",
    "emoji": "😀😂🥰👍👩🚀🌈🔥🇦🇧🏽🏿‍️❤☃",
    "fullwidth": "".join(map(chr, range(0xFF01, 0xFFEF))),
    "compatibility": "".join(map(chr, [*range(0xFB00, 0xFB07), *range(0xFDF0, 0xFDFD), *range(0x2100, 0x2150), *range(0x3200, 0x3400, 7)])),
    "cased_astral": "".join(map(chr, [*range(0x10400, 0x10450), *range(0x1E900, 0x1E944), *range(0x118A0, 0x118E0), *range(0x1D400, 0x1D500, 5)])),
    "musical": "".join(map(chr, range(0x1D15E, 0x1D1C1))) + "\u302e\u302f",
}  # fmt: skip


def random_strings(rng, vocab):
    """Strings of one or a few scripts, words of the vocabulary, noise over all code points, and long words."""
    names = list(ALPHABETS)
    whole = [w for w in vocab if not w.startswith("##") and not w.startswith("[")]
    tails = [w[2:] for w in vocab if w.startswith("##")]
    for name in names:  # one script with spaces and its marks
        for _ in range(16):
            letters = ALPHABETS[name]
            n = rng.randint(1, 24)
            yield "".join(rng.choice(letters) if rng.random() < 0.85 else rng.choice("  ,.-") for _ in range(n))
    for _ in range(420):  # scripts mixed
        some = rng.sample(names, rng.randint(2, 5))
        yield "".join(rng.choice(ALPHABETS[rng.choice(some)]) for _ in range(rng.randint(1, 28)))
    for _ in range(300):  # words and parts of words, in any case, with marks and joints
        parts = []
        for _ in range(rng.randint(1, 9)):
            w = rng.choice(whole) + (rng.choice(tails) if rng.random() < 0.5 else "") + (rng.choice(tails) if rng.random() < 0.3 else "")
            w = rng.choice([str.lower, str.upper, str.title, str.swapcase])(w)
            if rng.random() < 0.15:
                w = unicodedata.normalize("NFD", w) + rng.choice("\u0301\u0308\u0327\u20dd")
            parts.append(w + rng.choice([" ", " ", " ", "", "-", ", ", ". ", "\u2019s ", "/", "\u200b", " [MASK] ", "\xa0"]))
        yield "".join(parts)
    for _ in range(380):  # any code point
        limit = rng.choice([0x100, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        text = ""
        for _ in range(rng.randint(1, 16)):
            c = rng.randrange(limit)
            text += chr(c) if not 0xD800 <= c <= 0xDFFF else rng.choice("ab ")
        yield text
    for _ in range(120):  # special tokens, whole and broken, among other things
        pieces = SPECIALS * 2 + ["[", "]", "MASK", "[MASK", "SEP]", " ", "a", "\u0301", "\u4e2d", ".", "\u200b", "word", "[mask]", "##"]
        yield "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9)))
    for _ in range(90):  # words about as long as the limit
        letters = ALPHABETS[rng.choice(["latin", "accents", "cyrillic", "hangul", "marks", "combining"])]
        yield "".join(rng.choice(letters + "e\u0301") for _ in range(rng.choice([33, 50, 99, 100, 101, 130])))
    for _ in range(160):  # canonical ordering: what is left of a run of combining characters
        yield "a" + "".join(rng.choice(ALPHABETS[rng.choice(["combining", "combining", "marks", "musical"])]) for _ in range(rng.randint(2, 8))) + rng.choice(["", "b", ".", " \u302e"])


def random_bytes(rng):
    for _ in range(120):
        text = bytearray("".join(rng.choice("aé中😀 .") for _ in range(rng.randint(1, 12))).encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            action = rng.randrange(3)
            if action == 0:
                text[at] = rng.randrange(256)
            elif action == 1:
                text.insert(at, rng.randrange(128, 256))
            elif len(text) > 1:
                del text[at]
        yield bytes(text)


def invalid_sequences(data):
    """How many U+FFFD Python's decoder puts in, those in the text itself apart."""
    return data.decode("utf-8", "replace").count("\ufffd") - data.count(b"\xef\xbf\xbd")


def escape(data):
    out = ""
    for part in data.decode("utf-8", "surrogateescape"):
        c = ord(part)
        if 0xDC80 <= c <= 0xDCFF:
            out += "\\x%02X" % (c - 0xDC00)
        elif part == "\\" or unicodedata.category(part) in ("Cc", "Zl", "Zp", "Cf"):
            out += "".join("\\x%02X" % b for b in part.encode())
        else:
            out += part
    return out


def options(tokenizer, letters):
    normalizer = tokenizer.backend_tokenizer.normalizer
    normalizer.lowercase, normalizer.strip_accents = "l" in letters, "s" in letters
    normalizer.handle_chinese_chars = "c" in letters


def case(tokenizer, letters, limit, pad, data):
    options(tokenizer, letters)
    text = data.decode("utf-8", "replace")
    enc = tokenizer(text, truncation=limit > 0, max_length=limit or None, padding="max_length" if pad else False, verbose=False)
    ids, mask = enc["input_ids"], enc["attention_mask"]
    assert mask == sorted(mask, reverse=True) and not any(enc["token_type_ids"])
    assert not pad or len(ids) == limit
    return "%s%d%s\t%d\t%d\t%s\t%s\n" % (letters, limit, "p" if pad else "", sum(mask), invalid_sequences(data), " ".join(map(str, ids)), escape(data))


def write_strings(tokenizer, head):
    rng = random.Random(20240229)
    vocab = [w for w, _ in sorted(tokenizer.get_vocab().items(), key=lambda x: x[1])]
    texts = [s.encode() for s in BY_HAND.strip("\n").split("\n") + BY_HAND_ESCAPED]
    texts += [s.encode() for s in random_strings(rng, vocab)] + BAD_UTF8 + list(random_bytes(rng))
    texts = list(dict.fromkeys(texts))
    lines = [case(tokenizer, "lsc", 0, False, t) for t in texts]
    for letters in ("", "l", "s", "ls", "lc", "sc", "c"):  # the other settings
        lines += [case(tokenizer, letters, 0, False, t) for t in rng.sample(texts, 70)]
    for limit in (2, 3, 8, 16, 64):  # cut and padded
        for pad in (False, True):
            lines += [case(tokenizer, "lsc", limit, pad, t) for t in rng.sample(texts, 16 if limit < 64 else 8)]
    with open(os.path.join(OUT, "strings.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write(head + "".join(lines))
    return len(texts), len(lines)


def write_unicode(tokenizer, head):
    options(tokenizer, "lsc")
    backend = tokenizer.backend_tokenizer

    def words(c):
        normal = backend.normalizer.normalize_str("a" + chr(c) + "b")
        return " ".join(w for w, _ in backend.pre_tokenizer.pre_tokenize_str(normal))

    lines, hangul = [], hashlib.sha256()
    for c in range(0x110000):
        if 0xD800 <= c <= 0xDFFF:
            continue
        w = words(c)
        if 0xAC00 <= c <= 0xD7A3:
            hangul.update((w + "\n").encode())
            if c == 0xD7A3:
                lines.append([0xAC00, c, "sha256 " + hangul.hexdigest()])
            continue
        if c != 0x20 and w == "a" + chr(c) + "b":
            continue
        if w == "a " + chr(c) + " b":
            w = "a @ b"
        if lines and lines[-1][1] == c - 1 and lines[-1][2] == w:
            lines[-1][1] = c
        else:
            lines.append([c, c, w])
    with open(os.path.join(OUT, "unicode.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write(head)
        for low, high, w in lines:
            f.write(("%04X\t%s\n" % (low, w)) if low == high else ("%04X-%04X\t%s\n" % (low, high, w)))
    return len(lines)


def main():
    os.makedirs(OUT, exist_ok=True)
    tokenizer = BertTokenizer.from_pretrained(MODEL, local_files_only=True)
    assert tokenizer.is_fast
    with open(os.path.join(MODEL, "vocab.txt"), "rb") as f:
        vocab = hashlib.sha256(f.read()).hexdigest()
    head = "# transformers %s, tokenizers %s, Python %d.%d, vocab.txt sha256 %s\n" % (
        transformers.__version__, tokenizers.__version__, *sys.version_info[:2], vocab)  # fmt: skip
    print("%d texts, %d cases" % write_strings(tokenizer, head))
    print("%d lines of code points" % write_unicode(tokenizer, head))


if __name__ == "__main__":
    main()
