"""A soak: one lock at work for minutes or hours on a real server, watched for what it never gives back.

Where to find what:

- a soak on one server, from the settings to what it left: `running`
- the folders of its stretches, and what a killed stretch has left: `stretches`
- the history, taken out of the recording window by window: `keeping`
- samples of the processes: `sampling`
- is the server still there: `watching`
- faults at a low rate: `plans`
"""
