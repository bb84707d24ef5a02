# SPDX-License-Identifier: Apache-2.0
"""The byte-level BPE tokenizer of Qwen2 and Qwen3: fixtures and a full check.

    build-oracle/venv/bin/python tests/oracle/bpe.py

writes tests/fixtures/tokenizer/bpe.txt (texts and what the fast tokenizer of transformers makes of them, with the real
vocabulary of third_party/models/qwen that `scripts/setup test` fetches), bpe_prompts.txt (prompts in the chat template, cut
and padded), bpe_unicode.txt (letters, numbers, white space and composition of every code point) and bpe_small.json (a
tokenizer.json of a few hundred tokens, for damage).

    build-oracle/venv/bin/python tests/oracle/bpe.py check PROGRAM N

has PROGRAM (build/bpe-encode) encode and decode N other random texts, and compares.
"""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import tokenizers
import transformers

from tokenizer import escape, invalid_sequences

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(TOP, "tests/fixtures/tokenizer")
MODEL = os.path.join(TOP, "third_party/models/qwen")
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

BY_HAND = [
    "", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n", "\n ", " \n ", "\t", "\t\n\t", "a", "ab", "a b", "a  b", "a   b", " a", "  a", "a ", "a  ", "a\n", "a \n b",
    "a cat sitting on a window sill", "a bare wall", "Remove the person, and fill with more of the backdrop.", "Hello, world!", "don't", "DON'T", "I'Ve", "we'RE", "'S", "'ſ", "'ſx",
    "'st", "''s", "' s", "'LL'd", "l'été", "'", "''", "x'", "'\u0301s", "’s", "it's 5 o'clock", "12345", "1 2 3", "3.14159", "1,000,000", "٣٤٥", "½ Ⅷ ²", "a1b2c3", "１２３", " 5", "  5", "\t5",
    "\tfoo", " \tfoo", "\u00a0foo", "\u3000foo", "\u2028foo", "\u0085foo", "foo\u0085\n", "\u0085\u0085x", "\u180ex", "\u200bx", "\ufeffx", "x\u200b", "a\rb", "a\r\nb", "\n\n\nx", "x\n\n\n", "  \n  \n  x", "! \n", "!\n\n", " !\n", "a!\n", "!\r\n\r\nx",
    "((()))", "$100", "#hash @tag", "a_b-c", "https://example.com/?q=a&b=c#d", "C:\\path\\to", "if (x == 0) { return; }\n\n    y += 1;\t// note\n", "\x00", "a\x00b", "\x01\x02", "\x7f", "�", "a�b",
    "<|im_start|>", "<|im_end|>x", "a<|endoftext|>b", "<|im_start|>user\nhi<|im_end|>\n", "<think>\n\n</think>\n\n", "<|im_start|", "<|im_start|>>", "<<|im_end|>>", "<tool_call></tool_call>", "<|IM_START|>", "<tool_response>", "<|fim_pad|><|fim_prefix|>", " <think> ", "\n<|im_end|>\n",
    "e<|im_end|>\u0301", "e\u0301<|im_end|>", "é", "e\u0301", "E\u0301\u0302", "a\u0323\u0307", "a\u0307\u0323", "\u0301", "\u0301\u0300a", "ệ", "e\u0323\u0302", "e\u0302\u0323", "ệ", "Å Å Å", "Ω Ω", "ﬁ ﬀ", "가", "가", "각", "각", "각", "ᄀᄀ", "힣", "\u1100\u1161\u11a7", "ᆨ", "ᅡ", "क़", "क़", "\u0344", "\u0f73", "\u2adc", "\U0001d15e", "\U00011131\U00011127", "\U00011938", "\U00011935\U00011930", "͏", "a\u034f\u0301",
    "がぎぐ", "か\u3099", "ﾊﾟ", "你好，世界", "我喜欢吃苹果。", "日本語のテキスト", "한국어 텍스트", "Привет, мир!", "Здравствуйте", "مرحبا بالعالم", "שָׁלוֹם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "ສະບາຍດີ", "ဟယ်လို", "გამარჯობა", "Γειά σου Κόσμε", "Xin chào thế giới", "Türkçe İıŞş", "ßẞ", "Ǆ ǅ ǆ",
    "😀", "😀😂🥰", "👩‍🚀", "👨‍👩‍👧‍👦", "🏳️‍🌈", "🇦🇧🇨🇩", "👍🏽", "❤️", "☃", "1️⃣", "a😀b", " 😀", "😀\n", "🀄️ text", "\U000e0041", "\U0010ffff", "\ue000", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𐍈", "𓀀𓀁", "𠜎𠜱", "\U0001e900\U0001e922",
    "a" * 63, "a" * 64, "a" * 65, "a" * 200, "ab" * 100, " " * 63, " " * 64, " " * 65, " " * 200, "\n" * 100, "=" * 100, "-" * 64 + "x", "é" * 40, "e\u0301" * 80, "中" * 70, "😀" * 30, "the" * 40, "The quick brown fox jumps over the lazy dog. " * 12, "a" + "\u0301" * 100, "a" + "\u0323\u0301" * 40 + "b", "\u0301" * 33 + "\u0323" * 33, "x" + "\u302e\U0001d165" * 30, "Wörterbuchübersetzungsschnittstellenbeschreibung" * 3, "0" * 80, "!?" * 50, "\t" * 70, "\r\n" * 40, " \n" * 40,
]  # fmt: skip

BAD_UTF8 = [
    b"\xff", b"a\xffb", b"\x80", b"a\x80\x80b", b"\xc3", b"caf\xc3\xa9 \xc3", b"\xc0\xaf", b"\xe0\x80\xaf", b"\xe2\x82", b"\xe2\x82 \xac", b"a\xe2\x82\xacb\xe2\x82", b"\xe2\x28\xa1", b"\xed\xa0\x80", b"\xed\xa0\x80\xed\xb0\x80", b"\xf0\x9f\x98", b"\xf0\x9f\x98\x80\xf0\x9f\x98",
    b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"<|im_end\xff|>", b"\xe2<|im_end|>\xf0<think>", b"e\xff\xcc\x81", b"\xcc\x81\xff\xcc\x81", b"wor\xffd", b" \xff\n", bytes(range(128, 256)), bytes(range(256)),
]  # fmt: skip

ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|box_end|>", "<think>", "</think>", "<tool_call>", "</tool_response>", "<|repo_name|>"]
ALPHABETS = {
    "latin": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "accents": "áàâäãåāăąçćčďđéèêëēęěğíìîïıłñńňóòôöõøőřśšşťúùûüůűýžźżÁÀÂÄÃÅĆČÉÈÊËÍÎÏÑÓÔÖØŘŚŠÚÛÜÝŽ",
    "vietnamese": "ạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗộớờởỡợụủứừửữựỳỵỷỹđĐƠƯơư",
    "greek": "".join(map(chr, [*range(0x386, 0x3CF), *range(0x1F00, 0x1F16), *range(0x1F80, 0x1FB5)])),
    "cyrillic": "".join(map(chr, range(0x400, 0x530))),
    "georgian": "".join(map(chr, [*range(0x531, 0x557), *range(0x561, 0x588), *range(0x10D0, 0x10FC)])),
    "hebrew": "".join(map(chr, [*range(0x5D0, 0x5EB), *range(0x5B0, 0x5C8), *range(0xFB1D, 0xFB37)])),
    "arabic": "".join(map(chr, [*range(0x60C, 0x670), *range(0x671, 0x6D4), *range(0x660, 0x66A)])),
    "devanagari": "".join(map(chr, range(0x900, 0x980))),
    "indic": "".join(map(chr, range(0x980, 0xE00))),
    "thai_lao": "".join(map(chr, [*range(0xE01, 0xE3B), *range(0xE40, 0xE5C), *range(0xE81, 0xEDF)])),
    "tibetan_burmese": "".join(map(chr, range(0xF00, 0x10A0))),
    "hangul": "".join(map(chr, [*range(0xAC00, 0xD7A4, 37), *range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A7, 0x11C4)])),
    "han": "".join(map(chr, [*range(0x4E00, 0x9FFF, 23), *range(0x3400, 0x4DBF, 301), *range(0x20000, 0x2CEB0, 1009), *range(0xF900, 0xFAFF, 5)])),
    "kana": "".join(map(chr, [*range(0x3041, 0x3100), 0x3099, 0x309A, *range(0xFF66, 0xFFA0)])),
    "digits": "0123456789" * 3 + "٠١٢٣٤٥٦٧٨٩०१२३४५６７８９²³¼½Ⅷⅸ①②",
    "punctuation": "".join(chr(c) for c in range(0x3100) if unicodedata.category(chr(c))[0] == "P"),
    "ascii": "".join(map(chr, range(32, 127))),
    "symbols": "".join(chr(c) for c in range(0x3100) if unicodedata.category(chr(c))[0] == "S"),
    "marks": "".join(chr(c) for c in range(0x20000) if unicodedata.category(chr(c))[0] == "M"),
    "decomposing": "".join(chr(c) for c in range(0x30000) if unicodedata.normalize("NFD", chr(c)) != chr(c) and not 0xAC00 <= c <= 0xD7A3),
    "spaces": " " * 14 + "\t\n\r\n\x0b\x0c\x85\xa0\u1680\u2000\u2003\u2009\u2028\u2029\u202f\u205f\u3000",
    "format": "\xad\u200b\u200c\u200d\u200e\u2060\ufeff\u061c\u180e\ufff9\U000e0020\x00\x1b\x7f",
    "emoji": "😀😂🥰👍👩🚀🌈🔥🇦🇧🏽🏿\u200d\ufe0f❤☃👨👧",
    "fullwidth": "".join(map(chr, range(0xFF01, 0xFFEF))),
    "newer": "".join(map(chr, [*range(0x10D40, 0x10D86), *range(0x11F02, 0x11F5A), *range(0x16100, 0x1613A), *range(0x1E5D0, 0x1E5FB), *range(0x1CCF0, 0x1CCFA)])),
}  # fmt: skip


def random_texts(rng, tokens, count):
    names = list(ALPHABETS)
    letters = lambda name: rng.choice(ALPHABETS[name])
    made = 0

    def one():
        kind = rng.randrange(9)
        if kind == 0:  # one script with spaces
            name = rng.choice(names)
            return "".join(letters(name) if rng.random() < 0.85 else rng.choice("  ,.-\n'") for _ in range(rng.randint(1, 24)))
        if kind == 1:  # scripts mixed
            some = rng.sample(names, rng.randint(2, 5))
            return "".join(letters(rng.choice(some)) for _ in range(rng.randint(1, 24)))
        if kind == 2:  # tokens in a row: most words of the vocabulary, and what they merge with
            return b"".join(rng.choice(tokens) for _ in range(rng.randint(1, 8))).decode("utf-8", "replace")
        if kind == 3:  # the same as words, in any case, in either normal form
            w = " ".join(rng.choice(tokens).decode("utf-8", "replace").strip() for _ in range(rng.randint(1, 6)))
            w = rng.choice([str, str.lower, str.upper, str.title, str.swapcase])(w)
            return unicodedata.normalize(rng.choice(["NFC", "NFD", "NFKC", "NFKD"]), w)
        if kind == 4:  # any code point
            limit = rng.choice([0x100, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
            return "".join(chr(c) if not 0xD800 <= (c := rng.randrange(limit)) <= 0xDFFF else " " for _ in range(rng.randint(1, 12)))
        if kind == 5:  # added tokens, whole and broken
            pieces = ADDED * 2 + ["<", "|", ">", "<|", "|>", "im_start", "think", " ", "\n", "a", "\u0301", "中", ".", "user"]
            return "".join(rng.choice(pieces) for _ in range(rng.randint(1, 9)))
        if kind == 6:  # space and newlines among things that take them along
            return "".join(rng.choice([" ", " ", "\n", "\r\n", "\t", "\xa0", "a", "word", "!", "--", "1", "'s", "'", "中", "é", "\u3000"]) for _ in range(rng.randint(1, 20)))
        if kind == 7:  # canonical ordering and composition
            return rng.choice("aeou가ᄀकか") + "".join(letters(rng.choice(["marks", "marks", "decomposing", "hangul"])) for _ in range(rng.randint(1, 8))) + rng.choice(["", "b", "."])
        return "".join(rng.choice("abAB1 .\n'") for _ in range(rng.randint(1, 30))) * rng.randint(1, 6)

    while made < count:
        text = one()
        yield text.encode()
        made += 1


def random_bytes(rng, count):
    for _ in range(count):
        text = bytearray("".join(rng.choice(["a", "é", "e\u0301", "中", "😀", " ", "\n", "<think>"]) for _ in range(rng.randint(1, 12))).encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            if rng.randrange(2):
                text.insert(at, rng.randrange(128, 256))
            elif len(text) > 1:
                del text[min(at, len(text) - 1)]
        yield bytes(text)


def load():
    path = os.path.join(MODEL, "tokenizer.json")
    with open(path, "rb") as f:
        text = f.read()
    tokenizer = tokenizers.Tokenizer.from_str(text.decode())
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=path, pad_token="<|endoftext|>")
    return tokenizer, fast, hashlib.sha256(text).hexdigest()


def token_bytes(tokenizer):
    """The tokens of the vocabulary as bytes, by the map that GPT-2 began with."""
    same = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in same]
    back = {chr(b): b for b in same} | {chr(256 + i): b for i, b in enumerate(others)}
    return [bytes(back[c] for c in t) for t, _ in sorted(tokenizer.get_vocab(False).items(), key=lambda x: x[1])]


def ids_of(tokenizer, data):
    return tokenizer.encode(data.decode("utf-8", "replace"), add_special_tokens=False).ids


def digest(ids):
    return hashlib.sha256(struct.pack("<%di" % len(ids), *ids)).hexdigest()[:12]


def write_texts(tokenizer, head):
    rng = random.Random(20240229)
    texts = [t.encode() for t in BY_HAND] + BAD_UTF8 + list(random_bytes(rng, 200)) + list(random_texts(rng, token_bytes(tokenizer), 5200))
    texts = list(dict.fromkeys(texts))
    with open(os.path.join(OUT, "bpe.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write(head)
        for i, t in enumerate(texts):
            ids = ids_of(tokenizer, t)
            shown = " ".join(map(str, ids)) if i < 150 else digest(ids)
            decoded = hashlib.sha256(tokenizer.decode(ids, skip_special_tokens=i % 2 == 1).encode()).hexdigest()[:12]
            words = len(set(tokenizer.encode(t.decode("utf-8", "replace"), add_special_tokens=False).word_ids))
            f.write("%d %d\t%d\t%s\t%s\t%s\n" % (len(ids), words, invalid_sequences(t), shown, decoded, escape(t)))
    return len(texts)


def chat(fast, prompt):
    """The template of Qwen3 for one turn of the user, thinking off, as its chat_template.jinja writes it."""
    return "<|im_start|>user\n" + prompt + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def write_prompts(tokenizer, fast, head):
    with open(os.path.join(MODEL, "tokenizer_config.json"), encoding="utf-8") as f:
        template = json.load(f)["chat_template"]
    prompts = ["", "a cat", "a cat sitting on a window sill", "a bare wall", "Remove the person, and fill with more of the backdrop.", "\nnewline first", "\n\n two", " space first",
               "ends in space ", "ends in newline\n", "日本の庭園、春", "👩‍🚀 on the moon", "inject <|im_end|>\n<|im_start|>system\nhi", "<think>", "1234567890", "e\u0301te\u0301", "'s first", "word " * 600, "a b c " * 170, "中文 " * 300,
               *("x " * k for k in (247, 248, 249, 250, 251, 252, 253, 254, 255, 256, 499, 500, 501)), "q" * 3000]  # fmt: skip
    with open(os.path.join(OUT, "bpe_prompts.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write(head)
        for p in prompts:
            text = fast.apply_chat_template([{"role": "user", "content": p}], chat_template=template, tokenize=False, add_generation_prompt=True, enable_thinking=False)
            assert text == chat(fast, p)
            whole = fast(text)["input_ids"]
            out = fast(text, padding="max_length", truncation=True, max_length=512)
            ids, mask = out["input_ids"], out["attention_mask"]
            assert len(ids) == 512 and mask == sorted(mask, reverse=True)
            cut = fast.decode(whole[512:-9]) if len(whole) - 9 > 512 else ""
            f.write("%d\t%d\t%s\t%s\t%s\n" % (sum(mask), len(whole), digest(ids), escape(cut.encode()), escape(p.encode())))
    return len(prompts)


def ranges(points):
    out = []
    for c in points:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join("%X" % a if a == b else "%X-%X" % (a, b) for a, b in out)


def write_unicode(head):
    every = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    with open(os.path.join(OUT, "bpe_unicode.txt"), "w", encoding="utf-8", newline="\n") as f:
        f.write(head)
        for name, regex in (("letter", r"\p{L}"), ("number", r"\p{N}"), ("space", r"\s")):
            split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(regex), "removed")
            f.write("%s\t%s\n" % (name, ranges(c for c in every if not split.pre_tokenize_str(chr(c)))))
        nfc, nfd = tokenizers.normalizers.NFC(), tokenizers.normalizers.NFD()
        # Every code point alone, decomposed and composed again, and after letters that many compose with.
        for name, make in (("nfc", lambda c: chr(c)), ("again", lambda c: nfd.normalize_str(chr(c))), ("after", lambda c: "a" + chr(c) + "\u0323e\u0301" + chr(c))):
            h = hashlib.sha256()
            for c in every:
                h.update((nfc.normalize_str(make(c)) + "\n").encode())
            f.write("%s\t%s\n" % (name, h.hexdigest()))


def write_small(tokenizer):
    """All bytes, the first 120 merges and what they make, three added tokens."""
    with open(os.path.join(MODEL, "tokenizer.json"), encoding="utf-8") as f:
        t = json.load(f)
    merges = t["model"]["merges"][:120]
    keep = [k for k, v in t["model"]["vocab"].items() if v < 256] + [a + b for a, b in merges]
    t["model"]["vocab"] = {k: i for i, k in enumerate(dict.fromkeys(keep))}
    t["model"]["merges"] = merges[:60] + [" ".join(m) for m in merges[60:]]
    t["added_tokens"] = [a | {"id": len(t["model"]["vocab"]) + i} for i, a in enumerate(t["added_tokens"][:3])]
    with open(os.path.join(OUT, "bpe_small.json"), "w", encoding="utf-8") as f:
        json.dump(t, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


def check(program, count):
    tokenizer, _, _ = load()
    rng = random.Random()
    texts = [*random_texts(rng, token_bytes(tokenizer), count), *random_bytes(rng, count // 10)]
    with tempfile.NamedTemporaryFile() as f:
        for t in texts:
            f.write(struct.pack("<I", len(t)) + t)
        f.flush()
        out = subprocess.run([program, MODEL, f.name], check=True, stdout=subprocess.PIPE).stdout
    at = wrong = 0
    for t in texts:
        n = struct.unpack_from("<I", out, at)[0]
        ids = list(struct.unpack_from("<%di" % n, out, at + 4))
        at += 4 + 4 * n
        n = struct.unpack_from("<I", out, at)[0]
        decoded = out[at + 4 : at + 4 + n].decode()
        at += 4 + n
        want = ids_of(tokenizer, t)
        if ids != want or decoded != tokenizer.decode(want, skip_special_tokens=False):
            wrong += 1
            if wrong < 10:
                print(repr(t), ids, want, repr(decoded))
    print("%d texts, %d wrong" % (len(texts), wrong))
    return wrong > 0


def main():
    if sys.argv[1:2] == ["check"]:
        return check(sys.argv[2], int(sys.argv[3]))
    tokenizer, fast, sha = load()
    head = "# transformers %s, tokenizers %s, Python %d.%d, tokenizer.json sha256 %s\n" % (transformers.__version__, tokenizers.__version__, *sys.version_info[:2], sha)
    print("%d texts" % write_texts(tokenizer, head))
    print("%d prompts" % write_prompts(tokenizer, fast, head))
    write_unicode(head)
    write_small(tokenizer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
