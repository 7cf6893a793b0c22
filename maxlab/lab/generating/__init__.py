"""``%%generate``: a model of language writes behind the text of a cell, token by token.

``made``     an answer with the probability and the cost of each of its tokens
``asking``   answers as they grow, from an `LLM`, a pipeline or a scheduler
``again``    the run that gave a token, as it was recorded or run again
``drawn``    an answer as HTML
``about``    the text about a chosen token as HTML
``view``     an answer whose tokens can be chosen, with the graph of one step
``magic``    the options of the cell magic, and what it does
``command``  the cell magic, which imports the others at its first use
"""
