"""What a model thinks of a given text: scores, whole distributions, differences, surgery, plots."""
