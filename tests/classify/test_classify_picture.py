from teardown.classify.attribute import attribute
from teardown.classify.picture import picture
from tests.classify.synthetic import data, request


def test_the_picture_shows_every_share_and_what_is_unexplained():
    text = picture(attribute(data([request(i, float(i), tokens=200) for i in range(20)])))
    first, *rest = text.splitlines()
    assert first.startswith("synthetic: decode, cause weights_bandwidth (confidence 0.")
    assert any(line.strip().startswith("decode") and "█" in line for line in rest)
    assert any("unexplained" in line for line in rest)
    assert "would disprove" in text and "read bandwidth reached" in text


def test_the_picture_of_an_abstention_says_so_and_why():
    text = picture(attribute(data([request(0, 0.0)])))
    assert text.startswith("synthetic: I cannot tell where the time goes")
    assert "only 1 complete requests" in text
