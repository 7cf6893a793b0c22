"""Hints beside the lines of an editor that made operations: shapes, times, and errors.

``texts``    the text that a cell or an imported file had when it ran: its statements and names
``lines``    what each line made in one graph
``marks``    where NaN and infinities began, and where operations failed
``sources``  the hints of all cells and files of this process
``channel``  tells them to a page, after each cell
``table``    what can be typed after ``ops.`` and ``nn.``: names, parameters, allowed words
"""
