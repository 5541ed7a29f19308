"""The pages in the browser (`tagrpo ui`): Streamlit over a database that is only read."""
