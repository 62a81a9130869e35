"""Chunks that our connection frames itself are those that h11 would have made."""

from __future__ import annotations

import h11
import pytest

from counsel.http.connection import Parser

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize(
    "request_line", [REQUEST, REQUEST.replace(b"1.1", b"1.0"), REQUEST.replace(b"GET", b"HEAD")]
)
@pytest.mark.parametrize("headers", [[], [("content-length", "6")], [("transfer-encoding", "chunked")]])
def test_an_answer_is_framed_as_h11_frames_it(request_line: bytes, headers: list[tuple[str, str]]) -> None:
    outputs = []
    for parser in (Parser(), h11.Connection(h11.SERVER)):
        parser.receive_data(request_line)
        while type(parser.next_event()) is not h11.EndOfMessage:
            pass
        chunks = [parser.send(h11.Response(status_code=200, headers=headers))]
        pieces = [b""] if request_line.startswith(b"HEAD") else [b"abc", b"", b"def"]
        chunks += [parser.send(h11.Data(data=piece)) for piece in pieces]
        chunks.append(parser.send(h11.EndOfMessage()))
        outputs.append(b"".join(chunks))
    assert outputs[0] == outputs[1]


def test_nothing_is_sent_after_an_answers_end() -> None:
    parser = Parser()
    parser.receive_data(REQUEST)
    while type(parser.next_event()) is not h11.EndOfMessage:
        pass
    parser.send(h11.Response(status_code=200, headers=[]))
    parser.send(h11.EndOfMessage())
    with pytest.raises(h11.LocalProtocolError):
        parser.send(h11.Data(data=b"late"))
