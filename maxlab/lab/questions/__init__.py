"""The questions that panels of a view ask about what it shows, each answered by a function.

A question is a name and a few arguments; its answer is plain JSON, and binary columns where there
is much of it; ``maxlab.lab.protocol.questions`` declares all of them. Answers that are small are
saved in the document too, so that a panel works in a saved notebook and in an exported page, where
there is nobody to ask.
"""
