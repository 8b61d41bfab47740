// What programs call themselves and what they print is anybody's text. It reaches the document as text nodes only; this
// module sees to it that it cannot look like something else either.

const NAMES = new Map([
  [0x061c, 'ALM'], [0x200b, 'ZWSP'], [0x200c, 'ZWNJ'], [0x200d, 'ZWJ'], [0x200e, 'LRM'], [0x200f, 'RLM'],
  [0x2028, 'LS'], [0x2029, 'PS'], [0x202a, 'LRE'], [0x202b, 'RLE'], [0x202c, 'PDF'], [0x202d, 'LRO'], [0x202e, 'RLO'],
  [0x2060, 'WJ'], [0x2066, 'LRI'], [0x2067, 'RLI'], [0x2068, 'FSI'], [0x2069, 'PDI'], [0xfeff, 'BOM'],
]);

/* eslint-disable no-control-regex */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const UNSEEN_IN_OUTPUT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;

const CONTROLS = 'NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US'.split(' ');

/** Letters in brackets rather than the pictures that Unicode has: few fonts have those. */
function symbol(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return `⟨${CONTROLS[code]}⟩`;
  if (code === 0x7f) return '⟨DEL⟩';
  return `⟨${NAMES.get(code) ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`}⟩`;
}

/** A name, an argument, a cause: one line in which nothing is invisible and nothing turns the direction of others. */
export function visible(text) {
  return String(text).replace(UNSEEN, symbol);
}

/** The same for output, whose lines and tabs stay. */
export function visibleOutput(text) {
  return text.replace(UNSEEN_IN_OUTPUT, symbol);
}

/** Cuts a long text in the middle of nothing: its beginning, and that there is more. */
export function shortened(text, most) {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}

const TEXT = 0;
const ESCAPE = 1;
const SEQUENCE = 2;
const STRING = 3;
const STRING_ESCAPE = 4;
const CHARSET = 5;

/** Longest string of an escape sequence that is believed to end: a lone introducer must not swallow what follows. */
const STRING_MOST = 4096;

/**
 * Takes a terminal's colours and movements out of output that comes in pieces, which may end within a sequence. A carriage
 * return begins the line again, as on a terminal, so that progress shows once.
 */
export class Plain {
  #state = TEXT;
  #held = 0;

  /** The text of a piece. A `\r` that is not followed by a newline is kept for `Lines`. */
  take(piece) {
    let out = '';
    for (const character of piece) {
      const code = character.codePointAt(0);
      switch (this.#state) {
        case TEXT:
          if (code === 0x1b) this.#state = ESCAPE;
          else if (code === 0x9b) this.#state = SEQUENCE;
          else out += character;
          break;
        case ESCAPE:
          if (character === '[') this.#state = SEQUENCE;
          else if (']P^_X'.includes(character)) {
            this.#state = STRING;
            this.#held = 0;
          } else if ('()*+#% '.includes(character)) this.#state = CHARSET;
          else this.#state = TEXT;
          break;
        case SEQUENCE:
          if (code >= 0x40 && code <= 0x7e) this.#state = TEXT;
          else if (code === 0x1b) this.#state = ESCAPE;
          else if (code < 0x20 || code > 0x7e) {
            this.#state = TEXT;
            out += character;
          }
          break;
        case STRING:
          this.#held += 1;
          if (code === 0x07 || code === 0x9c || this.#held > STRING_MOST) this.#state = TEXT;
          else if (code === 0x1b) this.#state = STRING_ESCAPE;
          else if (code === 0x0a) {
            this.#state = TEXT;
            out += character;
          }
          break;
        case STRING_ESCAPE:
          this.#state = character === '\\' ? TEXT : STRING;
          break;
        default:
          this.#state = TEXT;
      }
    }
    return out;
  }
}
