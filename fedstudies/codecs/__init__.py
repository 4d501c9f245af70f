"""``fedsim codecs``: pairs of compressors compared on the user's own model."""
